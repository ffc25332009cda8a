"""Every rule that code and tests cite stands in docs/rules.md, with tests that hold it."""

import re
from pathlib import Path

from .pages import PAGES, ROOT

RULES = ROOT / "docs" / "rules.md"
_CITED = re.compile(r"\b(?:SC|CA|WS|AC|AX|DB|G)[1-9][0-9]?\b")
_RULE = re.compile(r"(?m)^### (\w+) .*\n\n((?:.+\n)+)\nHeld by (.*)\.$")


def _sources() -> list[Path]:
    folders = ("libs", "services", "tests", "examples")
    return [
        path
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        if ".venv" not in path.parts
    ]


def test_every_rule_says_what_it_promises_and_which_tests_hold_it() -> None:
    """No rule is a heading only, none stands there twice; that its tests exist, `test_facts` looks at."""
    text = RULES.read_text()
    found = [match[1] for match in _RULE.finditer(text)]
    assert found == re.findall(r"(?m)^### (\w+)", text)
    assert len(found) == len(set(found))
    assert all(re.findall(r"\]\(\.\./tests/[\w/]+\.py\)", match[3]) for match in _RULE.finditer(text))


def test_every_rule_that_is_cited_is_there() -> None:
    """An id in a docstring, a comment or a page leads to a rule."""
    rules = set(re.findall(r"(?m)^### (\w+)", RULES.read_text()))
    for path in [*_sources(), *PAGES]:
        unknown = set(_CITED.findall(path.read_text())) - rules
        assert not unknown, f"{path.relative_to(ROOT)} cites {', '.join(sorted(unknown))}"
