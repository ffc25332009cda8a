"""Is the simulator any good? Mended faults are put back one by one, and random ones made: are they found?

Each runs in a process of its own, in which one module reads as it did before (`mutant_child`).
"""

import ast
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from .mended import Mutant
from .scenes import scene_of
from .swarm import theme_of

ROOT = Path(__file__).parents[2]
CORE = ROOT / "libs" / "sluice" / "core"


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    seed: int = 0
    """That found it, 0 if none did."""
    steps: int = 0
    """Of all seeds up to there."""
    text: str = ""
    cpu_s: float = 0.0
    """What it took of a processor, its start included."""

    def __str__(self) -> str:
        name, what = self.mutant.name, self.mutant.what
        if not self.seed:
            more = f" ({self.text})" if self.text else ""
            return f"{name:<16} not found in {self.steps:>7} steps   {what}{more}"
        return f"{name:<16} seed {self.seed:>4}, {self.steps:>7} steps   {what}: {self.text[:150]}"


def try_out(mutant: Mutant, seeds: Sequence[int], steps: int, most: int | None = None) -> Verdict:
    """Play the mutant's own seed, then *most* others (of its scene and theme first), until one finds it."""
    for file, text, _ in mutant.changes:
        if (ROOT / file).read_text().count(text) != 1:
            return Verdict(mutant, text=f"{file} does not read as the mutant expects")
    request = msgspec.json.encode(
        {"changes": mutant.changes, "seeds": _in_order(mutant, seeds, most), "steps": steps}
    )
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.simulation.mutant_child"],
            input=request,
            capture_output=True,
            cwd=ROOT,
            timeout=1200,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Verdict(mutant, text="took too long")
    try:
        found = msgspec.json.decode(done.stdout, type=dict[str, int | float | str])
    except msgspec.DecodeError:
        # It does not even start.
        return Verdict(mutant, seed=seeds[0], text=done.stderr.decode().strip().rpartition("\n")[2])
    seed, cpu_s = int(found["seed"]), float(found["cpu_s"])
    return Verdict(mutant, seed, int(found["steps"]), str(found["text"]), cpu_s)


_theme_of = cache(theme_of)


def _in_order(mutant: Mutant, seeds: Sequence[int], most: int | None) -> list[int]:
    """Return the mutant's own seed, and *most* others, those of its scene and theme first."""
    scene = mutant.scene or ""
    found = sorted(seeds, key=lambda seed: _theme_of(seed) != mutant.theme) if mutant.theme else list(seeds)
    others = sorted(found, key=lambda seed: scene_of(seed) != scene)[:most]
    own = mutant.seed
    return [own, *(seed for seed in others if seed != own)] if own else others


# Random ones

_SWAPS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip


def random_mutants(seed: int, count: int) -> Iterator[Mutant]:
    """Yield changes of single comparisons, conditions and sums of the deciders."""
    chance = random.Random(seed)
    files = sorted(path for path in CORE.rglob("*.py") if path.name != "__init__.py")
    number = 0
    while number < count:
        path = chance.choice(files)
        source = path.read_text()
        places = list(_places(ast.parse(source)))
        if not places:
            continue
        line, begin, end, text = chance.choice(places)
        lines = source.splitlines(keepends=True)
        before = lines[line - 1]
        row = before.encode()
        changed = (row[:begin] + text.encode() + row[end:]).decode()
        file = str(path.relative_to(ROOT))
        # With the line before it, so that the place is found again.
        context = "".join(lines[max(0, line - 4) : line - 1])
        if source.count(context + before) != 1:
            continue
        number += 1
        what = f"{path.name}:{line} {before.strip()[:60]} -> {changed.strip()[:60]}"
        yield Mutant(f"R{number}", what, ((file, context + before, context + changed),))


def _places(tree: ast.Module) -> Iterator[tuple[int, int, int, str]]:
    """Yield (line, first and last byte, other text) of what can be changed within one line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _SWAPS:
            left, right = node.left, node.comparators[0]
            if left.end_lineno == right.lineno and left.end_col_offset is not None:
                yield left.end_lineno, left.end_col_offset, right.col_offset, f" {_SWAPS[type(node.ops[0])]} "
        elif isinstance(node, ast.BoolOp) and node.values[0].end_lineno == node.values[1].lineno:
            one, two = node.values[:2]
            word = " or " if isinstance(node.op, ast.And) else " and "
            if one.end_lineno is not None and one.end_col_offset is not None:
                yield one.end_lineno, one.end_col_offset, two.col_offset, word
        elif (
            isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and node.lineno == node.end_lineno
        ):
            yield node.lineno, node.col_offset, node.operand.col_offset, ""


def table(
    mutants: Sequence[Mutant], seeds: Sequence[int], steps: int, most: int | None = None
) -> Iterator[str]:
    """Try mutants out, as many at once as there are processors, and yield a line about each.

    Those of which nobody knows a seed take longest, and come first.
    """
    began, found, cpu_s = time.monotonic(), 0, 0.0
    in_order = sorted(mutants, key=lambda mutant: bool(mutant.seed))
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each waits for a process of its own
        for verdict in pool.map(lambda mutant: try_out(mutant, seeds, steps, most), in_order):
            found += bool(verdict.seed)
            cpu_s += verdict.cpu_s
            yield str(verdict)
    took = f"{time.monotonic() - began:.0f} s, {cpu_s:.0f} s of processors"
    yield f"{found} of {len(mutants)} found, in {took}"


__all__ = ["random_mutants", "table", "try_out"]
