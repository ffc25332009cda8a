"""Prints the part of the lock file that runs need, hashes and all; what is left out is for development.

    python deploy/runtime_lock.py requirements.lock pyproject.toml > runtime.lock
    python deploy/runtime_lock.py requirements.lock --only setuptools > build.lock

The lock file says below each package what it is there for (`# via`), so its own graph is followed; nothing
is resolved anew. Standard library only: this runs before anything is installed.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

_NAME = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)")


def normal(name: str) -> str:
    """Return a package's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(lock: str) -> dict[str, list[str]]:
    """Return package -> its lines in the lock file."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lock.splitlines():
        match = _NAME.match(line)
        if match is not None:
            current = found[normal(match[1])] = []
        current.append(line)
    return found


def parents(lines: Iterable[str]) -> set[str]:
    """Return what a package is there for."""
    notes = [line.strip().removeprefix("#").strip() for line in lines if line.strip().startswith("#")]
    words = [note.removeprefix("via").strip() for note in notes]
    return {normal(match[1]) for word in words if (match := _NAME.match(word))}


def needed(found: Mapping[str, list[str]], roots: Iterable[str]) -> set[str]:
    """Return *roots* and everything that is there because of them."""
    missing = [root for root in roots if root not in found]
    if missing:
        raise SystemExit(f"not in the lock file: {', '.join(missing)}")
    wanted = set(roots)
    while True:
        more = {name for name, lines in found.items() if name not in wanted and parents(lines) & wanted}
        if not more:
            return wanted
        wanted |= more


def main(arguments: list[str]) -> None:
    """Print the wanted part."""
    found = entries(Path(arguments[0]).read_text())
    if arguments[1] == "--only":
        roots = {normal(name) for name in arguments[2:]}
    else:
        project = tomllib.loads(Path(arguments[1]).read_text())["project"]
        extras = project["optional-dependencies"]
        wanted = [*project["dependencies"], *extras["otel"], *extras["s3"]]
        roots = {normal(match[1]) for text in wanted if (match := _NAME.match(text))}
    for name in sorted(needed(found, roots)):
        print("\n".join(found[name]))


if __name__ == "__main__":
    main(sys.argv[1:])
