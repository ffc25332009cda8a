# ruff: noqa: ARG001  (checks get a request, whether they look at it or not)
"""Checks on the engine that runs them in production, without a server, on a clock of the test's."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from sluice.core.checks.intake import verdict as read_verdict
from sluice.events.envelope import Message
from sluice.protocol.checks import DELAY_MOST_S
from sluice.sdk.checks import (
    Controller,
    DuplicateCheckError,
    Pending,
    PreemptionRequired,
    Ready,
    Rejected,
    Request,
    Retry,
    Settings,
    Verdict,
)
from sluice.sdk.checks._verdict_messages import encode, to_verdict
from sluice.sdk.checks.testing import CheckTester, call_check, make_request

NAME = "example.com/controller"


def app(**settings: Any) -> Controller:
    return Controller(NAME, settings=Settings(**settings))


class Budget(msgspec.Struct):
    hours: int = 10


async def test_verdicts_say_what_the_function_returned() -> None:
    """Each kind of answer becomes the verdict of its attempt."""
    controller = app()
    answers: dict[str, Verdict] = {}

    @controller.check
    async def check(request: Request[Any]) -> Verdict:
        if request.name == "updated":
            return Ready(request.update_all(node_selector={"pool": "a"}), "fine")
        return answers[request.name]

    answers |= {
        "retry": Retry(90.2, "later"),
        "rejected": Rejected("never"),
        "pending": Pending("wait"),
        "preempt": PreemptionRequired("make room"),
    }
    async with CheckTester(controller) as tester:
        said = {name: await tester.ask(make_request(name=name)) for name in ("updated", *answers)}
    assert {name: (v.state, v.reason, v.message) for name, v in said.items()} == {
        "updated": ("Ready", "", "fine"),
        "retry": ("Retry", "", "later"),
        "rejected": ("Rejected", "", "never"),
        "pending": ("Pending", "", "wait"),
        "preempt": ("Pending", "PreemptionRequired", "make room"),
    }
    assert said["retry"].requeue_after_seconds == 91
    assert said["updated"].pod_set_updates[0].node_selector == {"pool": "a"}
    assert {v.attempt for v in said.values()} == {1}


async def test_request_from_a_job() -> None:
    """A manifest becomes pod sets, assignment and usage, with sums by flavor."""
    controller = app()

    @controller.check(kind="Budget", parameters=Budget)
    async def check(request: Request[Budget]) -> Verdict:
        assert request.parameters == Budget(hours=7)
        assert request.usage_by_flavor() == {"spot": {"cpu": 4000, "memory": 2 << 30}}
        assert (request.amount("cpu"), request.pods, request.flavors) == (4.0, 2, ["spot"])
        assert request.workload.local_queue == "research"
        return Ready()

    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": "research"}},
        "spec": {
            "parallelism": 2,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {
                            "name": "main",
                            "image": "train",
                            "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
                        }
                    ],
                }
            },
        },
    }
    request = make_request(job=job, flavors="spot", parameters={"hours": 7}, parameters_kind="Budget")
    assert await call_check(check, request) == Ready()
    async with CheckTester(controller) as tester:
        assert (await tester.ask(request)).state == "Ready"


async def test_pending_is_asked_again_and_told_once() -> None:
    """A recheck that finds nothing new publishes nothing."""
    controller = app(recheck_s=60)
    calls: list[float] = []

    @controller.check
    async def check(request: Request[Any]) -> Verdict:
        calls.append(tester.clock.now())
        request.memory["calls"] = request.memory.get("calls", 0) + 1
        return Ready() if request.memory["calls"] == 4 else Pending("not yet", 10 if len(calls) < 3 else None)

    async with CheckTester(controller) as tester:
        await tester.ask(make_request())
        await tester.advance(300)
        assert calls == [0, 10, 20, 80]
        assert [verdict.state for verdict in tester.verdicts] == ["Pending", "Ready"]


IMPOSSIBLE: list[Any] = [
    float("nan"),
    float("inf"),
    -float("inf"),
    1e15,
    DELAY_MOST_S + 1,
    timedelta(days=900_000),
    "60",
]


@pytest.mark.parametrize("delay", IMPOSSIBLE)
@pytest.mark.parametrize("kind", [Retry, Ready, Pending, PreemptionRequired])
async def test_a_delay_that_is_none_is_a_failure_that_is_shown(kind: Any, delay: Any) -> None:
    """Pending with its text, tried again later and later; nothing is published that the cell refuses."""
    controller = app()
    calls: list[float] = []

    @controller.check
    async def check(request: Request[Any]) -> Verdict:
        calls.append(tester.clock.now())
        found: Verdict = kind(after=delay) if kind is Retry else kind(recheck_after=delay)
        return found

    async with CheckTester(controller) as tester:
        await tester.ask(make_request())
        await tester.advance(20)
        assert calls == [0, 1, 3, 7, 15]
        (verdict,) = tester.verdicts
        assert (verdict.state, "a delay must be" in verdict.message) == ("Pending", True)


@pytest.mark.parametrize("delay", [0, 0.01, -5, timedelta(seconds=-1), -1e300])
async def test_a_deadline_that_has_passed_means_in_a_second(delay: Any) -> None:
    """At once would be without a pause."""
    controller = app()
    calls: list[float] = []

    @controller.check
    async def check(request: Request[Any]) -> Verdict:
        calls.append(tester.clock.now())
        return Pending("wait", delay) if len(calls) < 10 else Retry(delay)

    async with CheckTester(controller) as tester:
        await tester.ask(make_request())
        await tester.advance(20)
        assert calls == list(range(10))
        assert [verdict.requeue_after_seconds for verdict in tester.verdicts] == [None, 1]


@pytest.mark.parametrize("delay", [1, DELAY_MOST_S, timedelta(days=3660), 0, -5])
def test_what_a_retry_asks_for_is_taken_by_the_service(delay: Any) -> None:
    """The limits are the same where it is made and where it is read."""
    payload = encode("controller/c", "id", 0, to_verdict(make_request(), Retry(delay)), None)
    _, found = read_verdict(Message(subject="verdict.c", payload=payload), 1)
    assert not found.errors


async def test_failures_are_shown_and_tried_again_later_and_later() -> None:
    """An exception is a Pending verdict with its text, told once; the function is called again."""
    controller = app(backoff_s=1, backoff_most_s=4)
    calls: list[float] = []

    @controller.check
    async def check(request: Request[Any]) -> Verdict:
        calls.append(tester.clock.now())
        if len(calls) < 6:
            raise ConnectionError("database away")
        return Ready()

    async with CheckTester(controller) as tester:
        first = await tester.ask(make_request())
        assert (first.state, first.message) == (
            "Pending",
            "The check failed and is tried again: ConnectionError: database away",
        )
        await tester.advance(60)
        assert calls == [0, 1, 3, 7, 11, 15]
        assert [verdict.state for verdict in tester.verdicts] == ["Pending", "Ready"]
        assert tester.numbers.failures == 5


async def test_a_result_that_is_no_verdict_is_a_failure() -> None:
    """So are parameters that do not fit, and a check that no function is for."""
    controller = app()

    @controller.check("broken")
    async def broken(request: Request[Any]) -> Any:
        return True

    @controller.check("typed", parameters=Budget)
    async def typed(request: Request[Budget]) -> Verdict:
        return Ready()

    async with CheckTester(controller) as tester:
        verdict = await tester.ask(make_request(check="broken"))
        assert verdict.message.endswith(
            "a check must return Ready, Retry, Rejected, Pending or PreemptionRequired, not bool"
        )
        verdict = await tester.ask(make_request(check="typed", parameters={"hours": "many"}))
        assert "Expected `int`, got `str` - at `spec.hours`" in verdict.message
        verdict = await tester.ask(make_request(check="other"))
        assert "has no function for check 'other'" in verdict.message


async def test_a_call_that_takes_too_long_has_failed() -> None:
    """The function is cancelled, and called again later."""
    controller = app(timeout_s=30)
    calls: list[float] = []

    @controller.check
    async def check(request: Request[Any]) -> Verdict:
        calls.append(tester.clock.now())
        if len(calls) == 1:
            await asyncio.Event().wait()
        return Ready()

    async with CheckTester(controller) as tester:
        tester.begin(make_request())
        await asyncio.sleep(0)
        await tester.advance(32)
        assert calls == [0, 31]
        assert [v.state for v in tester.verdicts] == ["Pending", "Ready"]
        assert "no answer within 30 s" in tester.verdicts[0].message


async def test_withdrawal_cancels_and_releases() -> None:
    """The running function is cancelled; then `on_stop` is called; nothing is said any more."""
    controller = app()
    seen: list[str] = []

    @controller.check
    async def check(request: Request[Any]) -> Verdict:
        seen.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(f"cancelled, withdrawn {request.withdrawn}")
        return Ready()

    @check.on_stop
    async def release(request: Request[Any]) -> None:
        seen.append(f"released attempt {request.attempt}")

    async with CheckTester(controller) as tester:
        request = make_request()
        tester.begin(request)
        await asyncio.sleep(0)
        await tester.withdraw(request)
        assert seen == ["begun", "cancelled, withdrawn True", "released attempt 1"]
        assert tester.verdicts == []


async def test_another_attempt_begins_when_the_former_has_ended() -> None:
    """What an attempt took is released before the next one takes it."""
    controller = app()
    seen: list[str] = []

    @controller.check
    async def check(request: Request[Any]) -> Verdict:
        seen.append(f"begun {request.attempt}")
        if request.attempt == 1:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                seen.append("ended 1")
        return Ready()

    async with CheckTester(controller) as tester:
        request = make_request()
        tester.begin(request)
        await asyncio.sleep(0)
        verdict = await tester.retry(request)
        assert seen == ["begun 1", "ended 1", "begun 2"]
        assert (verdict.state, verdict.attempt) == ("Ready", 2)


async def test_watch_takes_an_approval_back() -> None:
    """An approved workload is looked after at the intervals asked for, until the verdict changes."""
    controller = app()
    calls: list[float] = []

    @controller.check
    async def check(request: Request[Any]) -> Verdict:
        return Ready()

    @check.watch(every=30)
    async def watch(request: Request[Any]) -> Verdict | None:
        calls.append(tester.clock.now())
        return Rejected("budget cut") if len(calls) == 3 else None

    async with CheckTester(controller) as tester:
        request = make_request()
        await tester.ask(request)
        await tester.admit(request)
        await tester.advance(100)
        assert calls == [0, 30, 60]
        assert [v.state for v in tester.verdicts] == ["Ready", "Rejected"]


async def test_who_is_not_the_active_replica_any_more_begins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that stood still finds its watch due before it knows that another one has taken over."""
    controller = app()
    calls: list[float] = []

    @controller.check
    async def check(request: Request[Any]) -> Verdict:
        return Ready()

    @check.watch(every=30)
    async def watch(request: Request[Any]) -> Verdict | None:
        calls.append(tester.clock.now())
        return None

    async with CheckTester(controller) as tester:
        request = make_request()
        await tester.ask(request)
        await tester.admit(request)
        await tester.advance(40)
        monkeypatch.setattr(tester.engine, "_may", lambda: False)
        await tester.advance(100)
        assert calls == [0, 30]


async def test_ready_with_recheck() -> None:
    """Without a watch, `recheck_after` on Ready calls the check itself again."""
    controller = app()
    states: list[str] = []

    @controller.check
    async def check(request: Request[Any]) -> Verdict:
        states.append(request.state)
        return Ready(recheck_after=60) if len(states) < 3 else Retry(5, "over")

    async with CheckTester(controller) as tester:
        await tester.ask(make_request())
        await tester.advance(1000)
        assert states == ["Pending", "Ready", "Ready"]
        assert [v.state for v in tester.verdicts] == ["Ready", "Retry"]


async def test_concurrency_is_limited() -> None:
    """No more calls at a time than wanted, first come first served, and none is forgotten."""
    controller = app(concurrency=3)
    at_once = [0, 0]
    order: list[str] = []

    @controller.check
    async def check(request: Request[Any]) -> Verdict:
        order.append(request.name)
        at_once[0] += 1
        at_once[1] = max(at_once)
        await asyncio.sleep(0)
        at_once[0] -= 1
        return Ready()

    async with CheckTester(controller) as tester:
        for number in range(50):
            tester.begin(make_request(name=f"job-{number}"))
        await tester.settle()
    assert at_once == [0, 3]
    assert order == [f"job-{number}" for number in range(50)]
    assert len(tester.verdicts) == 50


async def test_functions_need_not_be_asynchronous() -> None:
    """A plain function runs in a thread."""
    controller = app()

    @controller.check
    def check(request: Request[Any]) -> Verdict:
        return Rejected(request.namespace)

    async with CheckTester(controller) as tester:
        assert (await tester.ask(make_request(namespace="ml"))).message == "ml"


async def test_a_person_decides_meanwhile() -> None:
    """A function at work on what has been decided otherwise is cancelled, and says nothing."""
    controller = app()
    begun = asyncio.Event()

    @controller.check
    async def check(request: Request[Any]) -> Verdict:
        begun.set()
        await asyncio.Event().wait()
        return Rejected()

    async with CheckTester(controller) as tester:
        request = make_request()
        tester.begin(request)
        await begun.wait()
        await tester.admit(request)
        assert tester.verdicts == []
        assert tester.numbers.cancelled == 1


async def test_a_person_decides_before_the_function_has_begun() -> None:
    """Both in one turn of the event loop: the place is free again, and the approval is watched."""
    controller = app(concurrency=1)
    watched: list[str] = []

    @controller.check
    async def check(request: Request[Any]) -> Verdict:
        return Ready()

    @check.watch(every=30)
    async def watch(request: Request[Any]) -> Verdict | None:
        watched.append(request.name)
        return None

    async with CheckTester(controller) as tester:
        request = make_request(name="approved")
        tester.begin(request)
        await tester.admit(request)
        assert watched == ["approved"]
        assert (await tester.ask(make_request(name="next"))).state == "Ready"


async def test_a_cancellation_from_within_is_a_failure() -> None:
    """The function is called again later, not at once and for ever."""
    controller = app(backoff_s=10)
    calls: list[float] = []

    @controller.check
    async def check(request: Request[Any]) -> Verdict:
        calls.append(tester.clock.now())
        if len(calls) in (1, 2):
            raise asyncio.CancelledError
        return Ready()

    async with CheckTester(controller) as tester:
        assert "CancelledError" in (await tester.ask(make_request())).message
        await tester.advance(40)
        assert calls == [0, 10, 30]


async def test_recheck_on_demand() -> None:
    """A change in the outside world has waiting requests looked at again at once."""
    controller = app()
    money = [0]

    @controller.check
    async def check(request: Request[Any]) -> Verdict:
        return Ready() if money[0] else Pending("no money", 3600)

    async with CheckTester(controller) as tester:
        for name in ("a", "b"):
            await tester.ask(make_request(name=name))
        money[0] = 1
        assert controller.recheck(lambda request: request.name == "a") == 1
        await tester.settle()
        assert [(v.workload, v.state) for v in tester.verdicts[2:]] == [("default/a", "Ready")]


async def test_preemptions_pending_changes_are_looked_at() -> None:
    """A waiting check is asked again when what it rests on changes."""
    controller = app()

    @controller.check
    async def check(request: Request[Any]) -> Verdict:
        return PreemptionRequired() if request.preemptions_pending else Ready()

    async with CheckTester(controller) as tester:
        request = make_request(preemptions_pending=True)
        assert (await tester.ask(request)).reason == "PreemptionRequired"
        done = await tester.ask(msgspec.structs.replace(request, preemptions_pending=False))
        assert done.state == "Ready"


def test_which_function_performs_a_check() -> None:
    """By name before by kind before any; two functions for the same are an error."""
    controller = app()

    @controller.check
    async def anything(request: Request[Any]) -> Verdict:
        return Ready()

    @controller.check("one")
    async def one(request: Request[Any]) -> Verdict:
        return Ready()

    @controller.check(kind="Budget")
    async def budget(request: Request[Any]) -> Verdict:
        return Ready()

    assert controller.find("one", "Budget") is one
    assert controller.find("two", "Budget") is budget
    assert controller.find("two", "") is anything
    with pytest.raises(DuplicateCheckError, match="two functions for check 'one'"):
        controller.check("one")(one.function)
