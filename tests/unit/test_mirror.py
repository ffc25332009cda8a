"""Unit tests lie where the code does: whoever opens a module knows where its tests are."""

from pathlib import Path

from tests.unit.structure import Code

UNIT = Path(__file__).parent
OF_THE_REPOSITORY = {"", "docs"}
"""Folders of tests that are of no module: this one of the code as a whole, and that of the pages."""


def test_unit_tests_lie_under_the_names_of_what_they_test() -> None:
    """`<package>/<room>/test_<module>.py`, more words may follow; of several modules together, in `whole`."""
    code = Code()
    files = [file.relative_to(UNIT).with_suffix("").parts for file in sorted(UNIT.rglob("test_*.py"))]
    assert ["/".join(parts) for parts in files if not has_home(code, *parts)] == []


def has_home(code: Code, *parts: str) -> bool:
    *folder, name = parts
    if "/".join(folder) in OF_THE_REPOSITORY:
        return True
    if folder[-1] == "whole":
        return ".".join(("sluice", *folder[:-1])) in code.files
    words = name.removeprefix("test_").split("_")
    names = ["_".join(words[:count]) for count in range(len(words), 0, -1)]
    modules = {".".join(("sluice", *folder, private + one)) for one in names for private in ("", "_")}
    return not modules.isdisjoint(code.files)


def test_what_has_a_home() -> None:
    code = Code()
    assert has_home(code, "core", "quota", "test_node")
    assert has_home(code, "core", "quota", "test_node_of_a_root")
    assert has_home(code, "sdk", "checks", "test_desk")  # _desk.py
    assert has_home(code, "core", "quota", "whole", "test_anything")
    assert has_home(code, "docs", "test_anything")
    assert not has_home(code, "core", "quota", "test_nodes")
    assert not has_home(code, "core", "test_node")
    assert not has_home(code, "core", "nowhere", "whole", "test_node")
