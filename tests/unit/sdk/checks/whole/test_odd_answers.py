# ruff: noqa: ARG001  (checks get a request, whether they look at it or not)
"""Nothing that an author's function returns or raises loses its request, or ends a watch."""

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import structlog

from sluice.sdk.checks import Controller, Pending, Ready, Rejected, Request, Retry, Settings
from sluice.sdk.checks.testing import CheckTester, make_request
from sluice.telemetry.logs import configure_logs


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Beyond(BaseException):
    """Of no kind that anybody expects."""


def raising(error: BaseException) -> Callable[[], Any]:
    def raises() -> Any:
        raise error

    return raises


ODD: dict[str, tuple[Callable[[], Any], str]] = {
    "no message": (lambda: Ready(message=None), "Ready: message must be text, not NoneType"),  # type: ignore[arg-type]
    "a number": (lambda: Retry(1, message=5), "Retry: message must be text, not int"),  # type: ignore[arg-type]
    "an exception as text": (lambda: Rejected(ValueError("x")), "Rejected: message must be text"),  # type: ignore[arg-type]
    "pending with a number": (lambda: Pending(7), "Pending: message must be text, not int"),  # type: ignore[arg-type]
    "an answer that is no Unicode": (lambda: Pending("\udce4.txt"), "surrogates not allowed"),
    "updates of no kind": (lambda: Ready(None), "'NoneType' object is not iterable"),  # type: ignore[arg-type]
    "no Unicode": (raising(OSError("cannot open \udce4.txt")), r"OSError: cannot open \udce4.txt"),
    "no text": (raising(Mute()), "Mute: its text cannot be had (RuntimeError)"),
    "exit": (raising(SystemExit(3)), "SystemExit: 3"),
    "interrupt": (raising(KeyboardInterrupt()), "KeyboardInterrupt"),
    "cancelled": (raising(asyncio.CancelledError()), "CancelledError"),
    "of no kind": (raising(Beyond("x")), "Beyond: x"),
    "stop iteration": (raising(StopIteration(1)), "StopIteration"),
}


@pytest.fixture(autouse=True)
def _logs() -> Iterator[io.StringIO]:
    """As in production: what cannot be logged must not matter either."""
    out = io.StringIO()
    configure_logs("check/x", "1", {}, stream=out)
    yield out
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.mark.parametrize("threads", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize("which", ODD)
async def test_an_odd_answer_is_shown_and_tried_later_and_later(which: str, threads: bool) -> None:
    odd, text = ODD[which]
    calls: list[float] = []
    controller = Controller("example.com/c", settings=Settings(backoff_s=1))

    def answer(request: Request[Any]) -> Any:
        calls.append(tester.clock.now())
        return odd() if len(calls) < 4 else Ready()

    async def awaited(request: Request[Any]) -> Any:
        return answer(request)

    controller.check(answer if threads else awaited)
    async with CheckTester(controller) as tester:
        first = await tester.ask(make_request())
        assert first.state == "Pending"
        assert text in first.message
        await tester.advance(20)
        assert calls == [0, 1, 3, 7]
        assert tester.verdicts[-1].state == "Ready"


@pytest.mark.parametrize("watched", [False, True], ids=["recheck", "watch"])
@pytest.mark.parametrize("which", ODD)
async def test_an_approval_is_looked_at_again_whatever_a_look_at_it_said(which: str, watched: bool) -> None:
    odd, _ = ODD[which]
    calls: list[float] = []
    controller = Controller("example.com/c", settings=Settings(backoff_s=1))

    @controller.check
    async def check(request: Request[Any]) -> Any:
        return Ready() if watched else await look(request)

    async def look(request: Request[Any]) -> Any:
        calls.append(tester.clock.now())
        first = not watched and len(calls) == 1
        return Ready(recheck_after=2) if first else odd() if len(calls) < 4 else Ready(recheck_after=60)

    if watched:
        check.watch(every=2)(look)
    async with CheckTester(controller) as tester:
        await tester.ask(make_request())
        await tester.advance(20)
        assert calls == ([0, 1, 3, 7] if watched else [0, 2, 3, 5])


class Strict(msgspec.Struct):
    hours: int = 1

    def __post_init__(self) -> None:
        raise KeyError("table")


async def test_parameters_whose_type_fails_are_a_failure() -> None:
    controller = Controller("example.com/c", settings=Settings(backoff_s=1))

    @controller.check("typed", parameters=Strict)
    async def typed(request: Request[Strict]) -> Any:
        raise AssertionError("never called")

    async with CheckTester(controller) as tester:
        assert tester.engine.preview({"x": make_request(check="typed", parameters={})}) == []
        verdict = await tester.ask(make_request(check="typed", parameters={"hours": 1}))
        assert "parameters: KeyError: 'table'" in verdict.message
        await tester.advance(4)
        assert tester.numbers.failures == 3


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError(), Mute()], ids=repr)
async def test_on_stop_that_raises_anything_does_not_hold_up_the_next_attempt(error: BaseException) -> None:
    attempts: list[int] = []
    stops: list[float] = []
    controller = Controller("example.com/c", settings=Settings(backoff_s=1))

    @controller.check
    async def check(request: Request[Any]) -> Any:
        attempts.append(request.attempt)
        return Ready()

    @check.on_stop
    async def stop(request: Request[Any]) -> None:
        stops.append(tester.clock.now())
        if len(stops) == 1:
            raise error

    async with CheckTester(controller) as tester:
        await tester.ask(make_request())
        await tester.put(make_request(attempt=2))
        await tester.advance(5)
    assert attempts == [1, 2]
    assert stops == [0, 1]


def test_what_cannot_be_written_as_json_is_logged_all_the_same(_logs: io.StringIO) -> None:  # noqa: PT019
    class Hidden:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    structlog.get_logger().info("read", file="\udce4.txt", what=Hidden())
    line = json.loads(_logs.getvalue())
    assert (line["event"], line["file"], line["what"]) == ("read", "\udce4.txt", "<Hidden: RuntimeError>")
