"""The glossary has all concepts, and what it names is where it says."""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from sluice.events.catalogue import EVENTS
from tests.unit.public_api import objects
from tests.unit.structure import Code

from .pages import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
_ROW = re.compile(r"(?m)^\| (?!word |---)(.+) \|$")
_NAMED = re.compile(r"\[`(\w+)`\]\(([\w./]+\.py)\)")

NO_CONCEPTS = {
    "what the word says": {"Value", "Wire", "Request", "FieldError", "Micros"},
    "state of a decider as a whole": {"State", "SchedulerState"},
    "questions to the api service and answers, which docs/cli.md shows": {
        "Cause",
        "ChangeAnswer",
        "DeleteRequest",
        "HistoryRequest",
        "ListAnswer",
        "ListRequest",
        "Reference",
        "Status",
        "StatusAnswer",
        "StatusDetails",
        "StatusRequest",
        "WatchAnswer",
        "WatchRequest",
        "WhyAnswer",
        "WhyRequest",
        "WriterHead",
    },
    "parts of something that has a row": {
        "ActiveState",
        "Blocks",
        "Clock",
        "Held",
        "JobStatus",
        "Plan",
        "Queues",
        "Racing",
        "Reader",
        "Record",
        "Records",
        "Serving",
        "LazyDict",
        "Stored",
        "TakesTurns",
        "Todo",
        "Total",
        "Unit",
        "Usage",
        "Waiting",
        "Woken",
    },
    "what a snapshot holds": {"Histories", "Kept", "Snapshot"},
    "a message around a commit, of the codec": {"Enveloped"},
    "errors and job events, which docs/jobs.md lists": {"CommitDecodeError", "JobDeleted"},
}
"""Classes without a row, and why they need none."""


def rows() -> list[list[str]]:
    """The cells of every row of every table."""
    return [match[1].split(" | ") for match in _ROW.finditer(GLOSSARY.read_text())]


def named() -> set[tuple[str, str]]:
    """(name, file) of all that the glossary says to be in code."""
    return {(match[1], match[2]) for match in _NAMED.finditer(GLOSSARY.read_text())}


@cache
def defined(file: Path) -> frozenset[str]:
    """What a module defines at its top."""
    found: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                found.add(node.name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return frozenset(found)


def test_rows_are_whole_and_each_word_stands_once() -> None:
    """Four cells each: the word, Kueue's, the meaning, the place."""
    words = [row[0] for row in rows()]
    assert all(len(row) == 4 and all(row) and _NAMED.search(row[3]) for row in rows())
    assert sorted(words) == sorted(set(words))


@pytest.mark.parametrize(("word", "file"), sorted(named()))
def test_what_is_named_is_there(word: str, file: str) -> None:
    assert word in defined((GLOSSARY.parent / file).resolve())


def concepts() -> Iterator[tuple[str, str]]:
    """(module, class) of the core, and public ones of events and the bus; events.md has the events."""
    for module, tree in Code().trees.items():
        if module.startswith("sluice.core."):
            yield from ((module, node.name) for node in tree.body if isinstance(node, ast.ClassDef))
    for package in ("sluice.events", "sluice.protocol"):
        for module, name, value in objects(package):
            if inspect.isclass(value) and value not in EVENTS.values():
                yield module, name


def test_every_concept_has_a_row() -> None:
    known = {word for word, _ in named()} | {word for words in NO_CONCEPTS.values() for word in words}
    assert not [each for each in concepts() if not each[1].startswith("_") and each[1] not in known]


def test_no_exception_is_left_over() -> None:
    """What needs no row is there, and has none."""
    there = {name for _, name in concepts()} | {
        name for package in ("core", "events", "protocol") for _, name, _ in objects(f"sluice.{package}")
    }
    for words in NO_CONCEPTS.values():
        assert not words - there
        assert not words & {word for word, _ in named()}
