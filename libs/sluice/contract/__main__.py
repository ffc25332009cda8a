"""`python -m sluice.contract [ROOT]`: write proto/ and docs/events.md anew."""

import sys
from pathlib import Path

from .schema import files


def write(root: Path) -> int:
    """Write every generated file below *root*, remove those that are no more; return how many."""
    wanted = files()
    for folder in ("proto/golden", "proto/schema"):
        for path in (root / folder).rglob("*.json"):
            if str(path.relative_to(root)) not in wanted:
                path.unlink()
    for name, text in wanted.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return len(wanted)


if __name__ == "__main__":
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd()
    print(f"{write(root)} files written below {root}")
