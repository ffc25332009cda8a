"""The heartbeat of a controller where somebody has deleted it by hand, which leaves a deletion marker."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from sluice.local.server import EmbeddedServer
from sluice.log.errors import StaleSequenceError
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.kv import Bucket
from sluice.sdk.checks._lease import heartbeat_lease
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.nats


@pytest.fixture
async def log(nats_server: EmbeddedServer) -> AsyncIterator[JetStreamLog]:
    log = await JetStreamLog(nats_server.url).open()
    yield log
    await log.close()


async def delete(bucket: Bucket, key: str) -> None:
    """Delete a key as `nats kv del` does."""
    connection = await bucket.log.connection()
    await connection.request(bucket.prefix + key, b"", {"KV-Operation": "DEL"})


async def test_it_is_taken_where_a_deletion_marker_is(log: JetStreamLog) -> None:
    """A stand-by that comes upon the marker need not wait for what never comes."""
    lease = heartbeat_lease(log, "example.com/test", "one", ttl_s=5)
    await lease.bucket.ensure()
    await delete(lease.bucket, lease.key)

    async with asyncio.timeout(PATIENCE_S):
        await lease.acquire()

    found = await lease.bucket.get(lease.key)
    assert found is not None
    assert b'"one"' in found.value


async def test_its_holder_renews_it_after_it_was_deleted(log: JetStreamLog) -> None:
    lease = heartbeat_lease(log, "example.com/test", "one", ttl_s=600)
    await lease.acquire()
    await delete(lease.bucket, lease.key)

    assert await lease._renew()
    assert await lease.bucket.get(lease.key) is not None


async def test_a_key_without_a_value_is_new(log: JetStreamLog) -> None:
    """Revision 0 means that nothing is there; of two that write so, the second is refused."""
    bucket = Bucket(log, "claims")
    await bucket.ensure()
    await bucket.put("a", b"1", revision=0)
    await delete(bucket, "a")

    revision = await bucket.put("a", b"2", revision=0)

    with pytest.raises(StaleSequenceError):
        await bucket.put("a", b"3", revision=0)
    assert await bucket.get("a") == ("a", b"2", revision)
