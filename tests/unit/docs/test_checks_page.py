"""The programs in docs/admission-checks.md are programs."""

import asyncio
import sys
from types import ModuleType
from typing import Any

import pytest
import structlog

from sluice.sdk.checks import Controller
from sluice.sdk.checks.testing import CheckTester, make_request

from .pages import ROOT, blocks

PAGE = (ROOT / "docs" / "admission-checks.md").read_text()
PROGRAMS = [block for block in blocks(PAGE, "python") if "Controller(" in block]
TESTS = [block for block in blocks(PAGE, "python") if "CheckTester" in block]


def load(text: str, name: str = "page") -> ModuleType:
    module = ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
    return module


@pytest.mark.parametrize("text", PROGRAMS, ids=lambda text: text.partition('Controller("')[2].split('"')[0])
def test_programs_answer(text: str) -> None:
    """Each takes a request, and says Ready to one that nothing is wrong with."""
    app: Controller = load(text).app

    async def answer() -> str:
        async with CheckTester(app) as tester:
            return (await tester.ask(make_request())).state

    with structlog.testing.capture_logs():
        assert asyncio.run(answer()) == "Ready"


def test_the_tests_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's tests are of the page's first program."""
    monkeypatch.setitem(sys.modules, "check", load(PROGRAMS[0], "check"))
    (text,) = TESTS
    functions: dict[str, Any] = {k: v for k, v in vars(load(text)).items() if k.startswith("test_")}
    assert functions
    with structlog.testing.capture_logs():
        for function in functions.values():
            asyncio.run(function())
