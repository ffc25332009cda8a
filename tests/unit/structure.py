"""The shape of the code as numbers: `python -m tests.unit.structure [ROOT]` prints a row for each package.

Every import counts, also those for types only and within functions: a ring that the interpreter does not see
is one for whoever reads.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]

Graph = Mapping[str, set[str]]


class Code:
    """All modules below `libs/sluice` and `services` of a checkout."""

    def __init__(self, root: Path = ROOT) -> None:
        folders = {"sluice": root / "libs" / "sluice", "sluice.services": root / "services"}
        self.files = {
            ".".join((name, *file.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__"): file
            for name, folder in folders.items()
            for file in sorted(folder.rglob("*.py"))
        }

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        return {name: ast.parse(file.read_text()) for name, file in self.files.items()}

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """Module -> the modules that it imports, wherever the import stands."""
        return {name: set(self._imported(name)) - {name} for name in self.files}

    def _imported(self, name: str) -> Iterator[str]:
        package = name if self.files[name].name == "__init__.py" else name.rpartition(".")[0]
        for node in ast.walk(self.trees[name]):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names if alias.name in self.files)
            elif isinstance(node, ast.ImportFrom):
                parts = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
                base = ".".join([*parts, *([node.module] if node.module else [])])
                base = "sluice." * base.startswith("services.") + base
                for alias in node.names:
                    full = f"{base}.{alias.name}"
                    yield from (one for one in (full if full in self.files else base,) if one in self.files)

    def functions(self) -> Iterator[tuple[str, int]]:
        """(module.function, lines) of each, decorators left out."""
        for name, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    assert node.end_lineno is not None
                    yield f"{name}.{node.name}", node.end_lineno - node.lineno + 1

    def lines(self, name: str) -> int:
        return len(self.files[name].read_text().splitlines())


def rings(graph: Graph) -> list[list[str]]:
    """Modules that lead back to themselves, those of one ring together."""
    reached = {name: _reached(graph, name) for name in graph}
    found = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in graph
        if name in reached[name]
    }
    return [list(ring) for ring in sorted(found)]


def _reached(graph: Graph, name: str) -> set[str]:
    found: set[str] = set()
    todo = [name]
    while todo:
        new = graph.get(todo.pop(), set()) - found
        found |= new
        todo += new
    return found


def longest_chain(graph: Graph) -> int:
    """How many modules import each other in a row at most, a ring counted as one."""
    ring_of = {name: ring[0] for ring in rings(graph) for name in ring}
    merged: dict[str, set[str]] = {}
    for name, targets in graph.items():
        one = ring_of.get(name, name)
        merged.setdefault(one, set()).update(ring_of.get(target, target) for target in targets)
    known: dict[str, int] = {}

    def depth(name: str) -> int:
        if name not in known:
            known[name] = 1 + max(
                (depth(other) for other in merged.get(name, ()) if other != name), default=0
            )
        return known[name]

    return max(map(depth, merged))


def main(root: Path) -> None:
    code = Code(root)
    print("| package | modules | lines | median | longest | most in a folder | rings | longest chain |")
    print("|---|---|---|---|---|---|---|---|")
    for package in sorted({".".join(name.split(".")[:2]) for name in code.files if "." in name}):
        inside = [name for name in code.files if f"{name}.".startswith(f"{package}.")]
        if len(inside) < 2:
            continue
        sizes = [code.lines(name) for name in inside if code.lines(name)]
        graph = {name: {one for one in code.imports[name] if one in inside} for name in inside}
        folders = [code.files[name].parent for name in inside if code.files[name].name != "__init__.py"]
        found = ", ".join(str(len(ring)) for ring in rings(graph)) or "none"
        print(
            f"| {package.partition('.')[2]} | {len(folders)} | {sum(sizes):,} | {median(sizes):.0f} "
            f"| {max(sizes)} | {max(map(folders.count, folders))} | {found} | {longest_chain(graph)} |"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
