"""docs/from-kueue.md: its tables of kinds are the code's, and every field of Kueue's objects is on it."""

import re

import pytest

from sluice.cli.commands.jobs.misspelt import NO_EFFECT

from .from_kueue_page import OBJECTS, PAGE, fields, tables, written

TEXT = PAGE.read_text()


@pytest.mark.parametrize("name", tables())
def test_tables_are_what_the_code_says(name: str) -> None:
    start, end = written(TEXT, name)
    assert TEXT[start:end] == tables()[name], "run: python -m tests.unit.docs.from_kueue_page"


@pytest.mark.parametrize("kind", OBJECTS, ids=lambda kind: kind.__name__)
def test_every_field_is_told_of(kind: type) -> None:
    """By its path, or a path above it; and no row tells of a field that there is not."""
    section = TEXT[TEXT.index(f"### {kind.__name__}\n") :]
    section = section[: section.index("\n\n#", 1)]
    told = {path for row in section.splitlines() if row.startswith("| `") for path in _paths(row)}
    known = fields(kind)
    above = {path.rpartition(".")[0] for path in known}
    leaves = [path for path in known if path not in above]
    assert [path for path in leaves if not any(f"{path}.".startswith(f"{one}.") for one in told)] == []
    assert [path for path in told if path not in known] == []


def _paths(row: str) -> list[str]:
    return re.findall(r"`([^`]+)`", row.split("|")[1])


def test_labels_without_effect_are_told_of() -> None:
    assert [key for key in NO_EFFECT if key.partition("/")[2] not in TEXT] == []
