"""One replica against a real server: requests come, change and go; verdicts land in the log."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from sluice.api.errors import invalid
from sluice.contract.examples import example
from sluice.events.catalogue import WRITERS
from sluice.events.checks import CheckInputRejected
from sluice.events.codec import encode_commit
from sluice.events.commit import Step
from sluice.protocol.checks import CheckVerdict
from sluice.protocol.subjects import verdict_suffix
from sluice.sdk.checks import Controller, Ready, Request, Retry, Settings, Verdict
from sluice.sdk.checks._verdict_messages import encode, message_id, to_verdict
from tests.support.nats import nats_server
from tests.support.waiting import eventually, stays

from .conftest import NAME, Cell

__all__ = ["nats_server"]
pytestmark = pytest.mark.nats


async def test_requests_before_and_after_the_start(cell: Cell) -> None:
    """What was asked before the controller ran, and what is asked later, gets one verdict each."""
    await cell.ask("early")
    await cell.ask("never", "reject")
    await cell.ask("others", controller="example.com/other")
    async with cell.running():
        await eventually(lambda: cell.said("never"))
        await cell.ask("late", "retry")
        await eventually(lambda: cell.said("late"))
    verdicts: dict[str, CheckVerdict] = {v.workload: v for v in await cell.verdicts()}
    assert {name: v.state for name, v in verdicts.items()} == {
        "default/early": "Ready",
        "default/never": "Rejected",
        "default/late": "Retry",
    }
    assert verdicts["default/late"].requeue_after_seconds == 7
    assert len(await cell.verdicts()) == 3
    assert {v.uid for v in verdicts.values()} == {"uid-early", "uid-never", "uid-late"}


async def test_deletion_cancels_and_another_attempt_begins_anew(cell: Cell) -> None:
    """The function at work ends, what it took is released, and only the new attempt is answered."""
    async with cell.running():
        gone = await cell.ask("gone", "wait")
        again = await cell.ask("again", "wait")
        await eventually(lambda: len(cell.did()) == 2)
        await cell.delete(gone)
        await cell.put(msgspec.structs.replace(again, attempt=2))
        await eventually(lambda: ("begin", "again", 2) in cell.did() and ("stop", "gone", 1) in cell.did())
        cell.gate.touch()
        await eventually(lambda: cell.said("again"))
    assert [(v.workload, v.attempt) for v in await cell.verdicts()] == [("default/again", 2)]
    did = cell.did()
    assert did.index(("stop", "again", 1)) < did.index(("begin", "again", 2))


async def test_failures_and_rubbish_stop_nothing(cell: Cell) -> None:
    """Exceptions and verdicts too large are visible; requests that cannot be read are left alone."""
    await cell.requests.put(f"{'example=2Ecom=2Ftest'}.default.rubbish.check", b'{"workload": 7}')
    for do in ("raise-once", "big-message", "big-updates", "ready"):
        await cell.ask(do, do)
    async with cell.running() as process:
        await eventually(lambda: cell.said("ready"))
        assert await eventually(lambda: _three(cell)) == ["Pending", "Ready"]
        assert process.numbers.unreadable == 1
    raised, *_ = await cell.verdicts("raise-once")
    assert raised.message == "The check failed and is tried again: RuntimeError: out of paper"
    (cut,) = await cell.verdicts("big-message")
    assert (cut.state, len(cut.message)) == ("Rejected", 8192 - 30 + len("... (9437184 characters)"))
    (refused,) = await cell.verdicts("big-updates")
    assert refused.state == "Pending"
    assert "may not be more than 65536 bytes" in refused.message


async def _three(cell: Cell) -> list[str] | None:
    said = [await cell.said(name) for name in ("raise-once", "big-message", "big-updates")]
    return said[0] if len(said[0]) == 2 and all(said) else None


async def test_a_server_that_restarts_loses_nothing(cell: Cell) -> None:
    """Verdicts that could not be published are, once the server is back; requests go on coming."""
    async with cell.running(cell.controller(ttl_s=5)):
        await cell.ask("before", "wait")
        await eventually(cell.did)
        cell.server.kill()
        cell.gate.touch()
        await eventually(lambda: ("end", "before", 1) in cell.did())
        await asyncio.to_thread(cell.server.start)
        assert await eventually(lambda: cell.said("before")) == ["Ready"]
        await cell.ask("after")
        assert await eventually(lambda: cell.said("after")) == ["Ready"]
    assert cell.did().count(("begin", "before", 1)) == 1


async def test_a_long_outage_costs_repetition_not_requests(cell: Cell) -> None:
    """Who could not renew the heartbeat in time stops performing, and begins anew when it can."""
    async with cell.running() as process:
        await cell.ask("a", "wait")
        await eventually(cell.did)
        cell.server.kill()
        await eventually(lambda: ("end", "a", 1) in cell.did())
        await eventually(lambda: process.numbers.active == 0)
        cell.gate.touch()
        await asyncio.to_thread(cell.server.start)
        assert await eventually(lambda: cell.said("a")) == ["Ready"]
    assert cell.did().count(("begin", "a", 1)) == 2


async def test_restart_repeats_nothing(cell: Cell) -> None:
    """Answered requests, and rechecks that are not due, are left alone by the next life."""
    for do in ("ready", "reject", "retry", "pending", "watched"):
        await cell.ask(do, do)
    async with cell.running():
        await eventually(lambda: _count(cell, 5))
    watched = (await cell.ask("watched", "watched", state="Ready", admitted=True)).workload.uid
    assert watched == "uid-watched"
    async with cell.running() as process:
        await eventually(lambda: process.numbers.requests == 5)
        await cell.ask("new")
        await eventually(lambda: cell.said("new"))
    assert len([1 for what, name, _ in cell.did() if what == "begin" and name != "new"]) == 5
    assert len(await cell.verdicts()) == 6


async def _count(cell: Cell, number: int) -> bool:
    return len(await cell.verdicts()) == number


async def test_rechecks_of_an_earlier_life(cell: Cell) -> None:
    """Who said that it would look again after a time does so, whoever it is by then."""
    app, states = Controller(NAME, Settings(ttl_s=1)), []

    @app.check
    async def check(request: Request[Any]) -> Verdict:
        states.append(request.state)
        return Ready(recheck_after=0.6) if len(states) == 1 else Retry(1, "no more")

    request = await cell.ask("a")
    async with cell.running(app):
        await eventually(lambda: cell.said("a"))
    await cell.put(msgspec.structs.replace(request, state="Ready", admitted=True))
    async with cell.running(app):
        await eventually(lambda: len(states) == 2)
    assert states == ["Pending", "Ready"]
    assert await cell.said("a") == ["Ready", "Retry"]


async def test_a_predecessors_verdict_that_came_late_counts(cell: Cell) -> None:
    """Of two verdicts with one number the log keeps the first, and this replica goes by that."""
    request = await cell.ask("a", "wait")
    async with cell.running() as process:
        await eventually(cell.did)
        ident = message_id(request, 1)
        payload = encode("predecessor", ident, 1, to_verdict(request, Retry(5, "was first")), None)
        await cell.client.log.append(verdict_suffix(NAME), payload, msg_id=ident)
        cell.gate.touch()
        await eventually(lambda: process.numbers.repeated == 1)
    assert [v.message for v in await cell.verdicts()] == ["was first"]


async def test_a_verdict_without_effect_is_given_again(cell: Cell) -> None:
    """If the service has read the verdict and asks as before, the check is performed once more."""
    await cell.ask("a")
    async with cell.running(cell.controller(overdue_s=0.3)):
        await eventually(lambda: cell.said("a"))
        # The service has not come so far, as far as anybody can tell.
        await stays(lambda: cell.did().count(("begin", "a", 1)) == 1, 0.7)
        step = Step(upto=await cell.client.log.end(), at=1, events=(example(WRITERS["checks"][0]),))
        await cell.client.log.append("checks", encode_commit("main", "checks", "c1", [step]))
        await eventually(lambda: cell.did().count(("begin", "a", 1)) == 2)


async def test_what_the_service_has_against_a_verdict_is_shown(cell: Cell) -> None:
    """The check's message names the reason, which stands in the log, while it is tried again."""
    await cell.ask("a")
    async with cell.running(cell.controller(overdue_s=0.3)):
        await eventually(lambda: cell.said("a"))
        seq = await cell.client.log.end()
        wrong = CheckInputRejected(
            cause=seq, subject="verdict.x", errors=(invalid("requeueAfterSeconds", 1, "far too long"),)
        )
        other = CheckInputRejected(cause=seq - 1, subject="verdict.y")
        for number, event in enumerate((other, wrong)):
            step = Step(upto=seq, at=1, events=(event,))
            await cell.client.log.append("checks", encode_commit("main", "checks", f"c{number}", [step]))
        await eventually(lambda: _states(cell, "a", ["Ready", "Pending", "Ready"]))
    shown = (await cell.verdicts("a"))[1].message
    assert "the cell did not take its verdict: requeueAfterSeconds" in shown
    assert shown.endswith("far too long")


async def _states(cell: Cell, name: str, states: list[str]) -> bool:
    return await cell.said(name) == states


async def test_a_bucket_made_anew(cell: Cell) -> None:
    """A projection can be thrown away: once it is whole again, requests that are gone are cancelled."""
    await cell.ask("gone", "wait")
    kept = await cell.ask("stays", "wait")
    async with cell.running():
        await eventually(lambda: len(cell.did()) == 2)
        connection = await cell.client.log.connection()
        await connection.ask(f"$JS.API.STREAM.DELETE.{cell.requests.stream}")
        await cell.requests.ensure()
        await stays(lambda: "stop" not in [what for what, _, _ in cell.did()], 0.5)
        await cell.ask("new")
        await stays(lambda: "stop" not in [what for what, _, _ in cell.did()], 0.5)
        await cell.put(kept)
        await cell.whole()
        await eventually(lambda: cell.said("new"))
        await eventually(lambda: ("stop", "gone", 1) in cell.did())
        cell.gate.touch()
        await eventually(lambda: cell.said("stays"))
    assert cell.did().count(("begin", "stays", 1)) == 1
    assert await cell.said("gone") == []


async def test_on_active_hears_of_every_request(cell: Cell) -> None:
    """The author can release what belongs to no request any more, before anything is performed."""
    app = Controller(NAME, Settings(ttl_s=1))
    order: list[Any] = []

    @app.on_active
    async def tidy(requests: Sequence[Request[Any]]) -> None:
        order.append(sorted(request.name for request in requests))

    @app.check
    async def check(request: Request[Any]) -> Verdict:
        order.append(request.name)
        return Ready()

    await cell.ask("a")
    await cell.ask("b", state="Ready")
    async with cell.running(app):
        await eventually(lambda: cell.said("a"))
    assert order == [["a", "b"], "a"]


async def test_health_and_metrics(cell: Cell) -> None:
    """/healthz says how it is, /metrics counts; without a server it is not well."""
    await cell.ask("a")
    async with cell.running(http="127.0.0.1:0") as process:
        await eventually(lambda: cell.said("a"))
        await eventually(lambda: process.health_port)
        status, body = await _get(process.health_port, "/healthz")
        health = json.loads(body)
        assert (status, health["role"], health["connected"]) == (200, "active", True)
        status, body = await _get(process.health_port, "/metrics")
        assert status == 200
        assert 'sluice_check_verdicts_total{controller="example.com/test",state="Ready"} 1' in body
        assert 'sluice_check_active{controller="example.com/test"} 1' in body
        assert (await _get(process.health_port, "/"))[0] == 404
        cell.server.kill()
        assert await eventually(lambda: _unwell(process.health_port))
        await asyncio.to_thread(cell.server.start)


async def _unwell(port: int) -> bool:
    return (await _get(port, "/healthz"))[0] == 503


async def _get(port: int, path: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    head, _, body = text.partition("\r\n\r\n")
    return int(head.split()[1]), body


async def test_many_requests_at_the_start(cell: Cell) -> None:
    """Thousands of requests are read in bulk, and every one is answered once."""
    connection = await cell.client.log.connection()
    for number in range(3000):
        request = await _frame(cell, number)
        connection.publish(*request)
    async with cell.running(cell.controller(ttl_s=10)) as process:
        await eventually(lambda: process.numbers.verdicts["Ready"] == 3000)
    verdicts: list[CheckVerdict] = await cell.verdicts()
    assert len({verdict.workload for verdict in verdicts}) == len(verdicts) == 3000


async def _frame(cell: Cell, number: int) -> tuple[str, bytes]:
    from sluice.protocol.checks import request_key
    from sluice.sdk.checks.testing import make_request

    request = make_request(name=f"job-{number}", controller=NAME)
    key = request_key(NAME, "default", f"job-{number}", "check")
    return cell.requests.prefix + key, msgspec.json.encode(request)
