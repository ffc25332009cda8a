"""Is the simulator any good? Mended faults are put back one by one, and random ones made: are they found?

Each runs in a process of its own, in which one module reads as it did before (`mutant_child`).
"""

import ast
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
CORE = ROOT / "libs" / "sluice" / "core"


@dataclass(frozen=True)
class Mutant:
    """`changes`: (file, text, what stood there instead)."""

    name: str
    what: str
    changes: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    seed: int = 0
    """That found it, 0 if none did."""
    steps: int = 0
    """Of all seeds up to there."""
    text: str = ""

    def __str__(self) -> str:
        name, what = self.mutant.name, self.mutant.what
        if not self.seed:
            more = f" ({self.text})" if self.text else ""
            return f"{name:<8} not found in {self.steps:>7} steps   {what}{more}"
        return f"{name:<8} seed {self.seed:>4}, {self.steps:>7} steps   {what}: {self.text[:150]}"


MENDED: tuple[Mutant, ...] = (
    Mutant(
        "B1",
        "a parent is admitted as a variant whose stop is not settled",
        (
            (
                "libs/sluice/core/variants_state.py",
                "return self.admitted_at is not None and not (self.evicted or self.stopped)",
                "return self.admitted_at is not None and not self.evicted",
            ),
            (
                "libs/sluice/core/variants_state.py",
                "return self.admitted_at is not None and (self.evicted or self.stopped)",
                "return self.admitted_at is not None and self.evicted",
            ),
        ),
    ),
    Mutant(
        "B2",
        "what has quota becomes a parent, or stops being one, without being stopped",
        (
            (
                "libs/sluice/core/families.py",
                "record = workload.record\n    if record.parent is not None:\n        return None\n    local",
                "record = workload.record\n    if True:\n        return None\n    local",
            ),
            (
                "libs/sluice/core/families.py",
                "    return parent is not None and parent.assignment is not None",
                "    return False",
            ),
            (
                "libs/sluice/core/variants_decide.py",
                "    if family.holds and not family.marked:",
                "    if False:",
            ),
        ),
    ),
    Mutant(
        "B3",
        "flavors that the job allows are dropped in a racing queue",
        (
            (
                "libs/sluice/core/variants_membership.py",
                "wanted = restricted(policy, family.record.allowed_flavors)",
                "wanted = restricted(policy, ())",
            ),
        ),
    ),
    Mutant(
        "B9",
        "a pod that the system ends counts as one that has ended by itself",
        (
            (
                "services/agent/pods.py",
                "COUNTED = frozenset({Pod.STARTING, Pod.RUNNING})",
                "COUNTED = frozenset(Pod)",
            ),
        ),
    ),
    Mutant(
        "B10",
        "a slice of the same size makes pods that are ready unready",
        (
            (
                "libs/sluice/core/slices_fold_inputs.py",
                "if grows(before, {pods.name: pods.count for pods in job.placement}):",
                "if True:",
            ),
        ),
    ),
    Mutant(
        "B12",
        "a complete set of verdicts is taken back because a controller is away",
        (
            (
                "libs/sluice/core/transitions.py",
                "    if not admits_what_is_ready(world, queue):",
                "    if not queue.active:",
            ),
        ),
    ),
    Mutant(
        "B15",
        "the Retry that is heard of first counts, not the longest",
        (
            (
                "libs/sluice/core/checks_decide.py",
                "        if late is not None:\n            return late, outcome\n",
                "",
            ),
        ),
    ),
    Mutant(
        "B16",
        "plain preemptions may go round",
        (
            (
                "libs/sluice/core/circles.py",
                "        return any(victim in before for victim in victims)\n\n    def plan",
                "        return False\n\n    def plan",
            ),
            (
                "libs/sluice/core/circles.py",
                "        return times if inputs == self._inputs else 0",
                "        return 0",
            ),
        ),
    ),
    Mutant(
        "NEW-1",
        "pod sets that come to the last flavor at different times begin anew by turns",
        (
            (
                "libs/sluice/core/flavor_search.py",
                "ended = came == -1 or not self._fungible",
                "ended = not self._fungible",
            ),
        ),
    ),
    Mutant(
        "NEW-2",
        "an attempt whose claim has expired is run again",
        (
            (
                "libs/sluice/sdk/execution/attempts.py",
                "elif owner is not None and owner.over:",
                "elif False:",
            ),
            (
                "libs/sluice/sdk/execution/attempts.py",
                "        elif owner is not None:\n            self._give_back(attempt, owner)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "NEW-3",
        "a verdict on the last flavors, or on pod sets together, is not looked at again",
        (
            (
                "libs/sluice/core/wake.py",
                "if resumed or reason not in _HOPELESS:",
                "if reason not in _HOPELESS:",
            ),
            ("libs/sluice/core/wake.py", "if len(pod_sets) > 1 and reason == _EXCEEDS:", "if False:"),
        ),
    ),
    Mutant(
        "NEW-4",
        "a search that is over is begun anew while its queue is open",
        (("libs/sluice/core/pending.py", "peers.searched = tree.epoch", "peers.searched = 0"),),
    ),
    Mutant(
        "NEW-5",
        "who cannot borrow gives up when others borrow",
        (("libs/sluice/core/promises.py", "        later = (", "        later = False and ("),),
    ),
    Mutant(
        "NEW-6",
        "who only reserves keeps others waiting for its pods",
        (
            (
                "libs/sluice/core/processing.py",
                "self.blocked = self._blocks and at_once",
                "self.blocked = self._blocks",
            ),
        ),
    ),
    Mutant(
        "NEW-7",
        "a blocker that reserves searches for flavors in every cycle",
        (
            (
                "libs/sluice/core/processing.py",
                "    over = tree is not None and not tree.dirty and tree.is_searched(entry.peers)",
                "    over = False",
            ),
        ),
    ),
    Mutant(
        "G9",
        "quota is released before the executor has stopped",
        (
            (
                "libs/sluice/core/transitions.py",
                "        if workload.admitted_at is not None:\n            return []\n",
                "",
            ),
        ),
    ),
    Mutant(
        "HELD",
        "a stand-by folds inputs at once instead of holding them back",
        (
            (
                "libs/sluice/log/fold.py",
                "                    self.held.append(entry)",
                "                    self.fold(entry)",
            ),
        ),
    ),
    Mutant(
        "CLAIM",
        "an attempt is begun without a look at the log",
        (
            (
                "libs/sluice/sdk/execution/attempts.py",
                "attempt.owner = answer.last, owner_of(answer.told, entry.uid, entry.attempt)",
                "attempt.owner = answer.last, None",
            ),
        ),
    ),
)


def try_out(mutant: Mutant, seeds: Sequence[int], steps: int) -> Verdict:
    """Play seeds until one finds the mutant."""
    for file, text, _ in mutant.changes:
        if (ROOT / file).read_text().count(text) != 1:
            return Verdict(mutant, text=f"{file} does not read as the mutant expects")
    request = msgspec.json.encode(
        {"changes": mutant.changes, "first": seeds[0], "last": seeds[-1], "steps": steps}
    )
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.mutant_child"],
        input=request,
        capture_output=True,
        cwd=ROOT,
        timeout=1200,
        check=False,
    )
    try:
        found = msgspec.json.decode(done.stdout, type=dict[str, int | str])
    except msgspec.DecodeError:
        # It does not even start.
        return Verdict(mutant, seed=seeds[0], text=done.stderr.decode().strip().rpartition("\n")[2])
    return Verdict(mutant, int(found["seed"]), int(found["steps"]), str(found["text"]))


# Random ones

_SWAPS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip


def random_mutants(seed: int, count: int) -> Iterator[Mutant]:
    """Yield changes of single comparisons, conditions and sums of the deciders."""
    chance = random.Random(seed)
    files = sorted(path for path in CORE.glob("*.py") if path.name != "__init__.py")
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


def table(mutants: Sequence[Mutant], seeds: Sequence[int], steps: int) -> Iterator[str]:
    """Try mutants out one by one, and yield a line about each."""
    began, found = time.monotonic(), 0
    for mutant in mutants:
        verdict = try_out(mutant, seeds, steps)
        found += bool(verdict.seed)
        yield str(verdict)
    yield f"{found} of {len(mutants)} found, in {time.monotonic() - began:.0f} s"


__all__ = ["MENDED", "Mutant", "random_mutants", "table", "try_out"]
