"""An attempt is resized by its counts at once, and by their manifest as soon as that is read."""

import asyncio
from typing import Any

import msgspec

from sluice.api.decode import decode_object
from sluice.protocol.dispatch import DispatchEntry, DispatchPodSet
from sluice.services.agent.agent import Resizing
from sluice.services.agent.plan import Plan
from tests.support.slices_world import manifest
from tests.unit.services.agent.test_plan import entry


def indexed(size: int) -> dict[str, Any]:
    return manifest(parallelism=size, completions=size, completionMode="Indexed")


class Given:
    """The work and the execution of one attempt."""

    def __init__(self) -> None:
        self.entry = sized(3, 1)
        self.readable = asyncio.Event()
        self.plans: list[tuple[int, int | None]] = []

    async def manifest(self) -> msgspec.Raw:
        seq = self.entry.manifest_seq
        await self.readable.wait()
        return msgspec.Raw(msgspec.json.encode(indexed(seq)))

    def resize(self, entry: DispatchEntry, plan: Plan) -> None:
        assert entry is self.entry
        (pods,) = plan.pod_sets
        self.plans.append((pods.parallelism, pods.completions))


def sized(count: int, manifest_seq: int) -> DispatchEntry:
    pods = DispatchPodSet(name="main", count=count)
    return msgspec.structs.replace(entry(pods), manifest_seq=manifest_seq)


async def test_an_edited_manifest_says_how_many_must_succeed() -> None:
    """An elastic Indexed job's completions are edited with its parallelism; the newest manifest counts."""
    given = Given()
    resizing = Resizing(given, given, decode_object(indexed(3)), 3)
    for size in (4, 5):
        given.entry = sized(size, size)
        resizing.resize(given.entry)
    assert given.plans == [(4, 3), (5, 3)]
    given.readable.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert given.plans[-1] == (5, 5)
    given.entry = sized(2, 5)
    resizing.resize(given.entry)
    assert given.plans[-1] == (2, 5)
    resizing.close()
