"""Tutorials: each command of docs/tutorials is run as it stands there, and prints what is shown."""

from pathlib import Path

import pytest

from tests.support.node import why_not
from tests.support.pages_played import ROOT, NotAsShown, Reader, is_as_shown, steps

PAGES = sorted((ROOT / "docs/tutorials").glob("[0-9a-z]*.md"))


@pytest.mark.nats
@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_does_what_it_shows(page: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path / "reader")
    try:
        for step in steps(page.read_text()):
            if step.text.startswith("node ") and (reason := why_not()):
                pytest.skip(f"from here on: {reason}")
            reader.does(step)
    finally:
        reader.end()


def test_there_are_tutorials() -> None:
    assert len(PAGES) >= 5


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a 3s", "a   17s\n", True),
        ("a\n...\nd", "a\nb\nc\nd\n", True),
        ("a\n...\nd", "a\nd\n", True),
        ("a ... d", "a b c d\n", True),
        ("a", "a\nb\n", False),
        ("a\nb", "a\n", False),
        ("job-train-7b287", "job-train-c15c3\n", True),
        ("job-train-7b287", "job-sweep-c15c3\n", False),
        ("2 more", "3 more\n", False),
    ],
)
def test_what_is_shown_is_compared(shown: str, printed: str, same: bool) -> None:
    """Line by line; what differs from run to run does not count, numbers do."""
    assert is_as_shown(shown, printed) is same


def test_a_failure_without_anything_shown_is_seen(tmp_path: Path) -> None:
    (step,) = steps("```console\n$ exit 3\n```\n")
    with pytest.raises(NotAsShown, match="exit 3"):
        Reader(tmp_path / "reader").does(step)


def test_a_block_that_nobody_would_run_is_an_error() -> None:
    with pytest.raises(ValueError, match="no test would run"):
        list(steps("```yaml\na: 1\n```\n"))
