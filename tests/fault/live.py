"""The live cell against its log: replicas, snapshots, projections and answers must be what the log makes."""

import asyncio
import hashlib
from typing import Any

import msgspec
from nats.aio.client import Client

from sluice.cli.cell.client import decode
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold, replay
from sluice.log.nats.blocking import BulkReader
from sluice.log.nats.jetstream import JetStreamLog, read_stream
from sluice.log.nats.objects import ObjectBucket
from sluice.log.runtime.projection import Projection
from sluice.log.runtime.snapshot import Snapshots
from sluice.protocol.query import ListAnswer, ListRequest
from sluice.readmodel.queries import list_objects
from sluice.readmodel.world import World as ApiWorld
from tests.support.system import System
from tests.support.verify import entries_for

from .probe import Probe

KINDS = ("ClusterQueue", "LocalQueue", "Job", "Workload", "Agent")


def digest_of(decider: Decider[Any], fold: Fold[Any]) -> str:
    """Return the digest of a folded state, as services compute it."""
    return hashlib.sha256(decider.dump(fold.state)).hexdigest()


def read_log(url: str, start: int = 1, cell: str = "main") -> list[Entry]:
    """Return the log from sequence *start* on."""
    return [entry for batch in BulkReader(url, cell, start) for entry in batch]


async def replicas(probe: Probe, system: System, folder: str, expected: str) -> list[str]:
    """Compare every replica's state with the log's; waits for those that are behind."""
    pids = {service.pid for service in system.live(folder)}
    wrong: list[str] = []
    for _ in range(20):
        answers = await probe.digests(folder, pids)
        wrong = [f"{folder} {pid}: gives no digest" for pid in sorted(pids - answers.keys())]
        wrong += [
            f"{folder} {pid} ({answer.role}, upto {answer.upto}, own {answer.own}): "
            "its state is not what the log makes"
            for pid, answer in sorted(answers.items())
            if pid in pids and answer.digest != expected
        ]
        if not wrong:
            break
        await asyncio.sleep(0.5)
    return wrong


async def snapshot(
    log: JetStreamLog, decider: Decider[Any], entries: list[Entry], expected: str, *, may_lack: bool
) -> list[str]:
    """Compare the newest snapshot and what came after it with the log folded from its start.

    *may_lack*: there need not be one, since they were deleted.
    """
    store = Snapshots(ObjectBucket(log))
    fold = await store.newest(decider, entries[-1].seq)
    if fold is None and may_lack:
        return []
    if fold is None:
        return [f"{decider.writer}: there is no snapshot that can be used"]
    begin = fold.upto
    own = entries_for(decider, entries)
    replay(decider, (entry for entry in own if entry.seq > begin), fold)
    if digest_of(decider, fold) != expected:
        return [f"{decider.writer}: the snapshot of {begin} and the rest are not what the log makes"]
    return []


async def projection(log: JetStreamLog, projection: Projection[Any], state: Any) -> list[str]:
    """Compare a bucket with what it should be by *state*."""
    what = projection.bucket
    wanted = {key: _plain(value) for key, value in projection.everything(state)}
    found: dict[str, Any] = {}
    stream = f"KV_{log.cell.bucket(what)}"
    info = await (await log.connection()).ask(f"$JS.API.STREAM.INFO.{stream}")
    prefix = f"$KV.{log.cell.bucket(what)}."
    async for batch in read_stream(log, stream, prefix, info["state"]["last_seq"]):
        for entry in batch:
            found.pop(entry.suffix, None)
            if b"KV-Operation" not in entry.header:
                found[entry.suffix] = _plain(entry.payload)
    return [
        f"{what} {key}: {found.get(key)}, should be {wanted.get(key)}"
        for key in sorted(wanted.keys() | found.keys())
        if wanted.get(key) != found.get(key)
    ]


def _plain(value: bytes) -> dict[str, Any]:
    """Return the entry without the commit it is of, which depends on who wrote it."""
    found: dict[str, Any] = msgspec.json.decode(value)
    found.pop("seq", None)
    return found


async def answers(client: Client, entries: list[Entry], times: int = 4) -> list[str]:
    """Compare what the api service answers, whichever replica does, with its world folded anew."""
    world = ApiWorld()
    world.fold(entries)
    wrong = []
    for kind in KINDS:
        request = ListRequest(kind=kind, min_seq=entries[-1].seq)
        expected = await list_objects(world, request)
        for _ in range(times):
            reply = await client.request("sluice.main.query.list", msgspec.json.encode(request), timeout=10)
            found = decode(reply.data, ListAnswer)
            # Through the wire as well, where lists and tuples are the same.
            items = msgspec.json.decode(msgspec.json.encode(expected.items))
            if items != found.items:
                wrong.append(f"api: its list of kind {kind} {_difference(found.items, items)}")
                break
    return wrong


def _difference(found: list[Any], expected: list[Any]) -> str:
    """Return the first difference of two lists of objects."""
    for one, other in zip(found, expected, strict=False):
        if one != other:
            return f"has {one}, should have {other}"
    return f"has {len(found)} objects, should have {len(expected)}"
