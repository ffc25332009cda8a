"""Examples in docstrings of the interface run, and say what comes out: they are doctests."""

import ast
import doctest
import importlib
import inspect
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import structlog.testing

from tests.unit import public_api

LOG = Path(__file__).parent / "replay" / "golden" / "incident.jsonl"


def _homes() -> Iterator[str]:
    """Modules that define what is public: private ones, too, where a package takes its names from there."""
    found = dict.fromkeys(
        module.__name__ for root in public_api.INTERFACE for module in public_api.modules(root)
    )
    for root in public_api.INTERFACE:
        for _, _, value in public_api.objects(root):
            if inspect.isclass(value) or inspect.isfunction(value):
                found[value.__module__] = None
    return (name for name in found if name.startswith("sluice."))


MODULES = [importlib.import_module(name) for name in _homes()]


def _examples(module: ModuleType) -> list[doctest.DocTest]:
    return [test for test in doctest.DocTestFinder().find(module) if test.examples]


@pytest.mark.parametrize("module", [m for m in MODULES if _examples(m)], ids=lambda m: m.__name__)
def test_examples_run(module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They find a log in the folder they run in."""
    shutil.copy(LOG, tmp_path)
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    with structlog.testing.capture_logs():
        for example in _examples(module):
            runner.run(example, out=said.append)
    assert not runner.failures, "".join(said)


def _programs(module: ModuleType) -> Iterator[str]:
    """Blocks of code in the module's docstrings that need a cell, and so cannot run here."""
    owners: list[Any] = [module, *(value for value in vars(module).values() if inspect.isclass(value))]
    for owner in owners:
        if owner is not module and owner.__module__ != module.__name__:
            continue
        block: list[str] = []
        for line in [*(inspect.getdoc(owner) or "").splitlines(), "end"]:
            if line.startswith("    ") or (block and not line):
                block.append(line)
            elif block:
                text = textwrap.dedent("\n".join(block))
                block = []
                if ">>>" not in text and any(word in text for word in ("import ", "async ", "with ")):
                    yield text


PROGRAMS = [(module.__name__, text) for module in MODULES for text in _programs(module)]


@pytest.mark.parametrize(("module", "text"), PROGRAMS, ids=[name for name, _ in PROGRAMS])
def test_programs_compile(module: str, text: str) -> None:
    """What needs a cell to run is Python at least, and imports what there is."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = compile(text, module, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
    compile(text, module, "exec", flags, dont_inherit=True)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {alias.name for alias in node.names}
            assert names <= set(dir(importlib.import_module(node.module)))
