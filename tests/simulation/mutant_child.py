"""`python -m tests.simulation.mutant_child`: play seeds with some modules changed, as standard input says.

Nothing else of this project may be imported before the changes are in place.
"""

import json
import sys
import time
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any


def change(changes: list[list[str]]) -> None:
    """Let modules be read as if they said something else."""
    root = Path(__file__).parents[2]
    changed: dict[str, list[tuple[str, str]]] = {}
    for file, text, other in changes:
        changed.setdefault(str(root / file), []).append((text, other))
    usual = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        path = str(Path(self.path).resolve())
        if path not in changed:
            return usual(self, fullname)
        source = Path(path).read_text()
        for text, other in changed[path]:
            assert text in source, f"{path} does not hold {text!r}"
            source = source.replace(text, other, 1)
        code: CodeType = compile(source, path, "exec")
        return code

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]


def main() -> dict[str, Any]:
    request = json.load(sys.stdin)
    change(request["changes"])
    from .known import known
    from .many import spare_collections
    from .run import Run, quiet

    quiet()
    spare_collections()
    steps = 0
    for seed in request["seeds"]:
        outcome = Run(seed, request["steps"]).play()
        steps += outcome.steps
        if outcome.invariant and not known(outcome):
            text = f"{outcome.invariant}: {outcome.text}"
            return {"seed": seed, "steps": steps, "text": text, "cpu_s": time.process_time()}
    return {"seed": 0, "steps": steps, "text": "", "cpu_s": time.process_time()}


if __name__ == "__main__":
    json.dump(main(), sys.stdout)
