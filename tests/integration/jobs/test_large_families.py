"""A job as large as a message may be, in a queue with sixteen variants, on a server with a file store."""

from pathlib import Path

import pytest

from sluice.events.codec import decode_commit
from sluice.events.variants import ParentAdmitted, VariantCreated, VariantUpdated
from sluice.log.contract import MAX_PAYLOAD
from sluice.log.errors import EventLogError
from sluice.sdk import AsyncClient
from tests.integration.jobs.conftest import apply_objects
from tests.property.test_step_size import NEARLY, with_tolerations
from tests.support.family_world import cluster_queue, flavor, local_queue
from tests.support.system import System
from tests.support.waiting import eventually

pytestmark = pytest.mark.nats

FLAVORS = [f"f{n:02}" for n in range(16)]


async def test_its_variants_are_created_admitted_and_changed(tmp_path: Path) -> None:
    """Nobody dies of what it takes; who is killed on the way, and another one, go on where the log ends."""
    with System(tmp_path) as system, system.logs_of_failures():
        first = [system.start(name) for name in ("slice_aggregator", "variant_controller", "scheduler")]
        async with AsyncClient(system.url, source="test") as client:

            async def told() -> list[object]:
                payloads = [
                    entry.payload async for entries in client.log.read(1, ["variants"]) for entry in entries
                ]
                assert all(len(payload) <= MAX_PAYLOAD for payload in payloads)
                return [e for p in payloads for step in decode_commit(p).steps for e in step.events]

            async def created() -> bool:
                found = [event for event in await told() if isinstance(event, VariantCreated)]
                return [event.variant for event in found] == FLAVORS

            async def admitted() -> bool:
                return any(isinstance(event, ParentAdmitted) for event in await told())

            async def changed() -> bool:
                found = {
                    e.workload: e.pod_sets
                    for e in await told()
                    if isinstance(e, VariantUpdated) and e.pod_sets
                }
                return [sets[0].count for sets in found.values() if sets] == [2] * len(FLAVORS)

            async def is_there() -> bool:
                try:
                    await client.log.end()
                except EventLogError:
                    return False
                return True

            await eventually(is_there)
            full = cluster_queue(dict.fromkeys(FLAVORS, 0))
            await apply_objects(client, *(flavor(name) for name in FLAVORS), full, local_queue())
            await client.submit(with_tolerations("large", NEARLY))
            await eventually(created)
            first[1].kill()
            await client.submit(with_tolerations("large", NEARLY - 1000, parallelism=2))
            system.start("variant_controller")
            await eventually(changed)
            await apply_objects(client, cluster_queue(dict.fromkeys(FLAVORS, 2)))
            await eventually(admitted)
        assert [service.alive for service in system.services] == [True, False, True, True]
