"""Anything in the buckets of a cell, or nothing: services and executors go on, what is derived is mended."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from sluice.core.slices.state import State
from sluice.log.nats.kv import Bucket
from sluice.log.nats.streams import look_at
from sluice.protocol.dispatch import Claim, DispatchEntry, dispatch_key
from sluice.sdk import AsyncClient
from sluice.sdk.execution import _settling
from sluice.services.slice_aggregator import claims as claims_sweep
from sluice.services.slice_aggregator.claims import SpoiledClaims
from tests.support.system import System
from tests.support.waiting import eventually

from .conftest import client, scheduler
from .test_lost_buckets import Executors, delete, executors, system, works

__all__ = ["client", "executors", "scheduler", "system"]
pytestmark = pytest.mark.nats

VALUES: tuple[bytes, ...] = (
    b"",
    b"{}",
    b"null",
    b"\xff\xfe",
    b"[" * 50_000,
    b'{"seq":',
    b'{"seq":99999999999999999999999}',
    b'{"holder":1}',
    b'{"executor":"x","instance":"other"}',
    b'{"name":"x","instance":null}',
    b"x" * 200_000,
)
HEADERS: tuple[Mapping[str, str], ...] = (
    {},
    {"Sluice-Seq": "many"},
    {"Sluice-Seq": "-1"},
    {"Sluice-Seq": "99999999999999999999999"},
    {"Sluice-Seq": "2"},
    {"Sluice-Seq": "1_0"},
)
DELETIONS: tuple[Mapping[str, str], ...] = (
    {"KV-Operation": "DEL"},
    {"KV-Operation": "?"},
    {"Nats-Marker-Reason": "MaxAge", "Sluice-Seq": "x"},
)
"""Of other keys than those in use: whoever deletes a job from the dispatch bucket has it begun anew."""
KEYS = ("x", "a.b", "default.z", "default.z.0000-1.1", "a.b.c.d.e", "=", "=FF.=FF", "agent.y", "agent.=")


async def publish(client: AsyncClient, subject: str, value: bytes, headers: Mapping[str, str] = {}) -> None:
    connection = await client.log.connection()
    connection.publish(subject, value, "", headers)


async def spoil(client: AsyncClient, what: str, own: str) -> None:
    """Put everything that nobody should into a bucket, under the key *own* last."""
    prefix = f"$KV.{client.log.cell.bucket(what)}."
    for key in (*KEYS, own):
        for value in VALUES:
            await publish(client, prefix + key, value)
        for headers in (*HEADERS, *DELETIONS) if key != own else HEADERS:
            await publish(client, prefix + key, b'{"executor":"x","seq":1}', headers)


async def ask(client: AsyncClient, what: str, stream: str, body: object = None) -> dict[str, Any]:
    return await (await client.log.connection()).ask(f"$JS.API.STREAM.{what}.{stream}", body)


async def whole(client: AsyncClient, key: str) -> bool:
    """Whether the dispatch bucket says again what it should of a job."""
    found = await look_at(await client.log.connection(), client.log.cell.bucket("dispatch"))
    value = await Bucket(client.log, "dispatch").get(key)
    if found is None or not found.whole or value is None:
        return False
    try:
        return msgspec.json.decode(value.value, type=DispatchEntry).state == "Running"
    except msgspec.DecodeError:
        return False


async def test_dispatch(client: AsyncClient, executors: Executors) -> None:
    """The leader writes over what is not its own, and takes away what should not be there."""
    executors.start("x")
    await works(client, executors, "a")
    key = dispatch_key("default/a")  # type: ignore[arg-type]
    for headers in HEADERS:
        await publish(client, f"$KV.sluice_main_dispatch.{key}", b'{"seq":1}', headers)
        await eventually(lambda: whole(client, key), 20)
    await spoil(client, "dispatch", key)
    await eventually(lambda: whole(client, key), 20)
    await works(client, executors, "b")
    assert executors.begun == [("a", 1), ("b", 1)]
    assert not executors.double

    async def clean() -> bool:
        return set(await Bucket(client.log, "dispatch").everything()) == {key, "default.b"}

    await eventually(clean, 20)
    executors.open.set()
    await client.wait_all(["a", "b"], timeout_s=60)


async def test_whoever_follows_dispatch(client: AsyncClient, executors: Executors) -> None:
    """An executor of one's own, made with `dispatch`, hears of what is an entry, and of nothing else."""
    executors.start("x")
    heard: Counter[str] = Counter()

    async def follow() -> None:
        async for change in client.dispatch():
            heard[change.job] += 1

    following = asyncio.create_task(follow())
    await works(client, executors, "a")
    await spoil(client, "dispatch", dispatch_key("default/a"))  # type: ignore[arg-type]
    await works(client, executors, "b")
    await eventually(lambda: "default/b" in heard)
    assert not following.done()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_claims(client: AsyncClient, executors: Executors) -> None:
    """Executors that were there go on, and those that come do; what runs has its claim again."""
    executors.start("x")
    await works(client, executors, "a")
    claims = Bucket(client.log, "claims")
    (key,) = await claims.keys()
    await spoil(client, "claims", key)
    await works(client, executors, "b")
    executors.start("y")
    executors.start("x2")
    await works(client, executors, "c")

    async def back() -> bool:
        found = await claims.get(key)
        try:
            return found is not None and msgspec.json.decode(found.value, type=Claim).executor == "x"
        except msgspec.DecodeError:
            return False

    await eventually(back, 20)
    assert sorted(executors.begun) == [("a", 1), ("b", 1), ("c", 1)]
    executors.open.set()
    await client.wait_all(["a", "b", "c"], timeout_s=60)


async def test_claims_of_attempts_that_have_ended(client: AsyncClient, executors: Executors) -> None:
    """Nobody mends these any more: they are taken away, and those that are claims stay."""
    executors.start("x")
    await works(client, executors, "a")
    await works(client, executors, "b")
    claims = Bucket(client.log, "claims")
    keys = await claims.keys()
    executors.open.set()
    await client.wait_all(["a", "b"], timeout_s=60)

    async def done() -> bool:
        found = [await claims.get(key) for key in keys]
        return all(one is not None and b"Done" in one.value for one in found)

    await eventually(done)
    sweep = SpoiledClaims(0.1)
    sweep.target = client.log
    sweep.leading(State(), 0)
    for value in (b"", b"{}", b"\xff\xfe", b'{"executor":""}'):
        for key in (keys[0], "default.z.0000-1.1", "=FF.=FF"):
            await claims.put(key, value)
        await claims.put("a.b", b'{"executor":"x"}')
        await eventually(lambda: _are(claims, keys[1:]), 20)
    await delete(client, "claims")
    await claims.put(keys[1], msgspec.json.encode(Claim(executor="x")))
    await claims.put(keys[0], b"null")
    await eventually(lambda: _are(claims, keys[1:]), 20)
    await sweep.drain()


async def _are(bucket: Bucket, keys: list[str]) -> bool:
    return sorted(await bucket.everything()) == keys


async def test_claims_of_its_own_name(client: AsyncClient, executors: Executors) -> None:
    """An executor that starts is not stopped by claims under its name that are of nothing."""
    await Bucket(client.log, "claims").ensure()
    claim = msgspec.json.encode(Claim(executor="x", instance="before"))
    for key in KEYS:
        await publish(client, f"$KV.sluice_main_claims.{key}", claim)
    executors.start("x")
    await works(client, executors, "a")


@pytest.mark.parametrize("what", ["heartbeats", "leases"])
async def test_leases_and_heartbeats(
    client: AsyncClient, executors: Executors, system: System, what: str
) -> None:
    """They are renewed, whatever stands there."""
    executors.start("x")
    await works(client, executors, "a")
    await spoil(client, what, {"heartbeats": "agent.x", "leases": "slice_aggregator"}[what])
    await works(client, executors, "b")
    system.start("slice_aggregator")
    await works(client, executors, "c")
    assert not executors.double
    assert all(service.alive for service in system.services)


async def test_snapshots(client: AsyncClient, executors: Executors, system: System) -> None:
    """A service starts from the newest that is one, else from the log, and saves others."""
    executors.start("x")
    for number in range(6):
        await works(client, executors, f"a{number}")
    stream = f"OBJ_{client.log.cell.bucket('snapshots')}"

    async def saved() -> int:
        info = await ask(client, "INFO", stream)
        return int(info["state"]["last_seq"]) if "state" in info else 0

    await eventually(saved)
    prefix = f"$O.{client.log.cell.bucket('snapshots')}."
    for value in (*VALUES, b'{"name":"\xff"}', b'{"name":"slices-1","bucket":"b","nuid":"*","chunks":-1}'):
        for key in ("M.x", "M.=", "C.x", "M.c2xpY2Vz"):
            await publish(client, prefix + key, value)
    before = await saved()
    (service,) = system.live("slice_aggregator")
    system.kill(service)
    service = system.start("slice_aggregator")
    await works(client, executors, "b")
    for number in range(6):
        await works(client, executors, f"c{number}")
    await eventually(lambda: _more(saved, before), 30)
    assert "Traceback" not in service.log_path.read_text()
    assert "snapshot failed" not in service.log_path.read_text()


async def _more(saved: Any, before: int) -> bool:
    return bool(await saved() > before)


@pytest.mark.parametrize("what", ["dispatch", "claims", "heartbeats", "leases"])
async def test_purged(client: AsyncClient, executors: Executors, what: str) -> None:
    """All entries are taken away, and the bucket stays."""
    executors.start("x")
    await works(client, executors, "a")
    for number in range(2):
        answer = await ask(client, "PURGE", f"KV_{client.log.cell.bucket(what)}")
        assert answer["success"]
        await works(client, executors, f"b{number}")
    await eventually(lambda: whole(client, dispatch_key("default/a")), 20)  # type: ignore[arg-type]
    await asyncio.sleep(1.5)
    assert executors.begun == [("a", 1), ("b0", 1), ("b1", 1)]


@pytest.mark.usefixtures("system")
async def test_the_bucket_of_claims_is_there_before_anybody_claims(client: AsyncClient) -> None:
    """An executor in another language has only to create a key."""

    async def made() -> bool:
        found = await look_at(await client.log.connection(), client.log.cell.bucket("claims"))
        return found is not None

    await eventually(made)


@pytest.mark.usefixtures("system")
async def test_a_bucket_of_claims_that_somebody_made_otherwise_is_named(
    client: AsyncClient, executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing can be claimed in it; whoever waits for it says so, and goes on when it has gone."""
    said: list[str] = []

    def say(event: str, **more: object) -> None:
        said.append(f"{event}: {more.get('error')}")

    log = SimpleNamespace(debug=say, info=say, warning=say, error=say)
    for module in (claims_sweep, _settling):
        monkeypatch.setattr(module, "log", log)
    await Bucket(client.log, "claims").ensure()
    await delete(client, "claims")
    name = f"KV_{client.log.cell.bucket('claims')}"
    config = {"name": name, "subjects": ["$KV.sluice_main_claims.>"], "max_msgs_per_subject": 1}
    await ask(client, "CREATE", name, config)
    sweep = SpoiledClaims(0.1)
    sweep.target = client.log
    sweep.leading(State(), 0)
    executors.start("x")

    def both() -> bool:
        return all(
            any(text.startswith(what) and "allow_msg_ttl" in text for text in said)
            for what in ("claims bucket unfit", "claims not read")
        )

    await eventually(both)
    await delete(client, "claims")
    await works(client, executors, "a")
    await sweep.drain()
