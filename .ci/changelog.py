"""`make changelog VERSION=1.2.0`: move the fragments in changes/ into CHANGELOG.md, as the newest version."""

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = {
    "added": "Added",
    "changed": "Changed",
    "decisions": "Decisions",
    "removed": "Removed",
    "fixed": "Fixed",
}
NEXT = "## Unreleased"


def kind_of(fragment: Path) -> str:
    """Return the kind that a fragment's name says.

    Raises:
        ValueError: it says none.
    """
    slug, kind, suffix = (*fragment.name.split("."), "", "")[:3]
    if suffix != "md" or kind not in KINDS or not slug:
        raise ValueError(f"{fragment.name}: not <slug>.<kind>.md, of a kind of {', '.join(KINDS)}")
    return kind


def released(changelog: str, version: str, fragments: Iterable[tuple[str, str]]) -> str:
    """Return the changelog with all that is unreleased, and *fragments* of (kind, text), as *version*."""
    head, unreleased, rest = _parts(changelog)
    found = {kind: [items] for kind, items in unreleased.items()}
    for kind, text in fragments:
        found.setdefault(kind, []).append(text.strip())
    sections = [
        f"### {title}\n\n" + "\n".join(found[kind]) + "\n" for kind, title in KINDS.items() if kind in found
    ]
    return f"{head}{NEXT}\n\n" + "\n".join([f"## {version}\n", *sections]) + rest


def _parts(changelog: str) -> tuple[str, dict[str, str], str]:
    """Return what stands before the unreleased, that by kind, and older versions."""
    head, _, after = changelog.partition(f"{NEXT}\n")
    unreleased, mark, older = after.partition("\n## ")
    kinds = {title: kind for kind, title in KINDS.items()}
    sections = {}
    for section in unreleased.split("\n### ")[1:]:
        title, _, items = section.partition("\n")
        sections[kinds[title]] = items.strip()
    return head, sections, mark + older


def main(version: str) -> None:
    files = sorted(file for file in (ROOT / "changes").glob("*.md") if file.name != "README.md")
    fragments = [(kind_of(file), file.read_text()) for file in files]
    changelog = ROOT / "CHANGELOG.md"
    changelog.write_text(released(changelog.read_text(), version, fragments))
    for file in files:
        file.unlink()


if __name__ == "__main__":
    main(sys.argv[1])
