"""Modules, folders and functions stay small, and no module needs itself."""

import ast
from collections import Counter

import pytest

from tests.unit.structure import Code, longest_chain, rings

MODULE, FUNCTION, FOLDER = 500, 60, 25
"""Lines of a module and of a function, modules of a folder, at most."""


QUESTIONS = {"What", "Who", "How", "Which", "Why", "Where", "When", "Whose", "Whom"}


@pytest.fixture(scope="module")
def code() -> Code:
    return Code()


def test_modules_and_functions_are_small(code: Code) -> None:
    assert [name for name in code.files if code.lines(name) > MODULE] == []
    assert [name for name, lines in code.functions() if lines > FUNCTION] == []


def test_docstrings_of_modules_name_what_they_hold(code: Code) -> None:
    """A noun phrase in the field's words, no question: `Order of workloads in their queue`."""
    firsts = {name: (ast.get_docstring(tree) or "").split(" ")[0] for name, tree in code.trees.items()}
    assert [name for name, first in firsts.items() if first in QUESTIONS] == []
    assert [name for name, first in firsts.items() if not first and code.lines(name)] == []


def test_folders_are_small(code: Code) -> None:
    counted = Counter(file.parent for file in code.files.values() if file.name != "__init__.py")
    assert {folder: count for folder, count in counted.items() if count > FOLDER} == {}


def test_no_ring_of_imports(code: Code) -> None:
    """None hidden by TYPE_CHECKING or within a function either; packages may name their own modules."""
    packages = {name for name, file in code.files.items() if file.name == "__init__.py"}
    assert rings({name: code.imports[name] - packages for name in code.files if name not in packages}) == []


def test_what_rings_and_chains_are() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set[str]()}
    assert rings(graph) == [["b", "c"]]
    assert longest_chain(graph) == 3
