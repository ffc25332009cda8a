"""Reading from several servers: the one that a reader comes to may have less than the stream's leader."""

import asyncio
import contextlib

import pytest

from sluice.log.errors import EventLogError
from sluice.log.nats import jetstream_api as api
from sluice.log.nats.blocking import BulkReader
from sluice.log.nats.consumer import Deliveries, may_be_behind
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.kv import Bucket
from tests.support.nats_cluster import SERVERS, nats_cluster
from tests.support.waiting import eventually

__all__ = ["nats_cluster"]
pytestmark = pytest.mark.nats


@pytest.fixture
async def log(nats_cluster):
    log = await nats_cluster.log("read")
    yield log
    await log.close()


async def test_what_is_acknowledged_is_read(log):
    """At once, through whichever server."""
    count = 0
    for n in range(25):
        await asyncio.gather(*(log.append(f"job.a.b{n}-{i}", b"{}") for i in range(5)))
        await log.append("scheduler", b"{}")
        count += 6
        assert len([entry async for batch in log.read(1, [">"]) for entry in batch]) == count
        found = [entry.seq async for batch in log.read(1, ["job.>"]) for entry in batch]
        assert len(found) == 5 * (n + 1)
        if n % 5 == 0:
            bulk = await asyncio.to_thread(list, BulkReader(log.url, "read"))
            assert sum(map(len, bulk)) == count


async def test_what_is_in_a_bucket_is_read(log):
    """A bucket whose newest message has been taken away, too."""
    bucket = Bucket(log, "claims")

    async def ready():
        with contextlib.suppress(EventLogError, ConnectionError, TimeoutError):
            await bucket.ensure()
            await bucket.put("k", b"1")
            return True
        return False

    await eventually(ready)
    for n in range(20):
        await bucket.put(f"k{n}", b"1")
        assert len(await bucket.everything()) == n + 2
    await bucket.remove("k19")
    assert len(await bucket.everything()) == 20


async def test_a_bucket_has_as_many_copies_as_the_log(log):
    """Also if it is made by somebody whom nobody has told how many that are."""
    untold = JetStreamLog(log.url, "read")
    bucket = Bucket(untold, "made-anew")
    try:

        async def written():
            with contextlib.suppress(EventLogError, ConnectionError, TimeoutError):
                return await bucket.put("k", b"1")

        await eventually(written)
        found = await api.info(await untold.connection(), bucket.stream)
        assert found["config"]["num_replicas"] == SERVERS
    finally:
        await untold.close()


def test_nothing_left_is_not_the_end_where_the_server_is_behind():
    deliveries = Deliveries("sluice.read.", 0)
    assert deliveries.reached(7)
    deliveries.newest = 5
    assert not deliveries.reached(7)
    deliveries.position = 5
    assert deliveries.reached(7)
    deliveries.pending = 1
    assert not deliveries.reached(7)


def test_one_server_is_never_behind():
    assert not may_be_behind({})
    assert not may_be_behind({"cluster": {"leader": "n1"}})
    assert may_be_behind({"cluster": {"leader": "n1", "replicas": [{"name": "n2"}, {"name": "n3"}]}})
