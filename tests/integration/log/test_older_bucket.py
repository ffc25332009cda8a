"""An older bucket is put back under who follows it: all that there is now is told, whatever was read."""

import asyncio
import contextlib
import shutil

import pytest

from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.kv import Bucket
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.nats


@pytest.fixture
async def bucket(open_log):
    bucket = Bucket(await open_log(), "dispatch")
    await bucket.ensure()
    return bucket


@pytest.fixture
async def follower(nats_server, open_log):
    """A proxy, and what somebody who follows the bucket through it has been told: [(key, value)]."""
    told = []
    await Bucket(await open_log(), "dispatch").ensure()

    async def follow(log):
        async for batch in Bucket(log, "dispatch").follow():
            told.extend(batch)

    here, _, port = nats_server.url.rpartition(":")
    async with TcpProxy(lambda: int(port)) as proxy:
        log = await JetStreamLog(f"{here}:{proxy.port}", name="follower").open()
        task = asyncio.create_task(follow(log))
        yield proxy, told
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await log.close()


async def put_back(nats_server, backup):
    await asyncio.to_thread(nats_server.stop)
    store = nats_server.directory / "jetstream"
    shutil.rmtree(store)
    shutil.copytree(backup, store)
    await asyncio.to_thread(nats_server.start)


@pytest.mark.parametrize("overwritten", [False, True], ids=["position kept", "position overwritten"])
async def test_what_stands_where_others_had_been_read_is_told(
    nats_server, bucket, follower, tmp_path, overwritten
):
    """The bucket has grown beyond the reader's position again before the reader is back."""
    proxy, told = follower
    await bucket.put("common", b"1")
    await eventually(lambda: dict(told) == {"common": b"1"})
    await asyncio.to_thread(nats_server.stop)
    shutil.copytree(nats_server.directory / "jetstream", tmp_path / "backup")
    await asyncio.to_thread(nats_server.start)
    for number in range(5):
        last = await bucket.put(f"lost{number}", b"1")
    await eventually(lambda: "lost4" in dict(told))

    proxy.cut()
    await put_back(nats_server, tmp_path / "backup")
    keys = [f"new{number}" for number in range(8)]
    revisions = {key: await bucket.put(key, b"1") for key in keys}
    if overwritten:
        (there,) = [key for key in keys if revisions[key] == last]
        await bucket.put(there, b"1")
    proxy.heal()
    await eventually(lambda: set(keys) <= set(dict(told)))


async def test_nothing_is_told_again_of_a_bucket_that_is_the_same(bucket, follower):
    """However often it is read on, also behind a message that is gone."""
    proxy, told = follower
    for round_ in range(3):
        for number in range(3):
            await bucket.put(f"k{number}", b"%d" % round_)
        await eventually(lambda round_=round_: told[-1:] == [("k2", b"%d" % round_)])
        proxy.cut()
        await bucket.put("k2", b"x")
        await bucket.put("k1", b"x")
        proxy.heal()
        await eventually(lambda: told[-2:] == [("k2", b"x"), ("k1", b"x")])
    assert len(told) == 15
