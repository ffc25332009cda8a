"""The table of invariants in docs/replay.md is that of `sluice log lint`."""

import re

from sluice.replay.lint.lint import INVARIANTS

from .pages import ROOT


def test_each_invariant_has_a_row_and_no_other() -> None:
    section = (
        (ROOT / "docs" / "replay.md").read_text().partition("## What must hold")[2].partition("\n## ")[0]
    )
    rows = re.findall(r"(?m)^\| `([\w-]+)` \| \S", section)
    assert sorted(rows) == sorted(INVARIANTS)
