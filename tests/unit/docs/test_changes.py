"""Fragments of the changelog are named so that they find their place, and get there."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from .pages import ROOT

FRAGMENTS = sorted(file for file in (ROOT / "changes").iterdir() if file.name != "README.md")


@pytest.fixture(scope="module")
def changelog() -> ModuleType:
    spec = importlib.util.spec_from_file_location("changelog", ROOT / ".ci" / "changelog.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda path: path.name)
def test_a_fragment_is_a_list_of_a_known_kind(changelog: ModuleType, fragment: Path) -> None:
    assert changelog.kind_of(fragment) in changelog.KINDS
    lines = fragment.read_text().splitlines()
    assert lines
    assert lines[0].startswith("- ")
    assert all(line.startswith(("- ", "  ")) for line in lines)


@pytest.mark.parametrize("name", ["fast.md", "fast.better.md", ".added.md", "fast.added.txt"])
def test_other_names_are_refused(changelog: ModuleType, name: str) -> None:
    with pytest.raises(ValueError, match="not <slug>"):
        changelog.kind_of(Path(name))


def test_a_version_has_all_that_was_unreleased(changelog: ModuleType) -> None:
    """Fragments join what stands there already; older versions stay, and nothing is unreleased any more."""
    before = "# Changelog\n\n## Unreleased\n\n### Fixed\n\n- A.\n\n## 1.0\n\n### Added\n\n- Z.\n"
    after = changelog.released(before, "1.1", [("fixed", "- B.\n"), ("decisions", "- C,\n  so.\n")])
    assert after == (
        "# Changelog\n\n## Unreleased\n\n## 1.1\n\n### Decisions\n\n- C,\n  so.\n\n### Fixed\n\n- A.\n- B.\n"
        "\n## 1.0\n\n### Added\n\n- Z.\n"
    )


def test_the_changelog_can_be_released(changelog: ModuleType) -> None:
    """All its headings are known, so a release loses no item."""
    text = (ROOT / "CHANGELOG.md").read_text()
    after = changelog.released(text, "9.9", [])
    assert [line for line in after.splitlines() if line and line != "## 9.9"] == [
        line for line in text.splitlines() if line
    ]
