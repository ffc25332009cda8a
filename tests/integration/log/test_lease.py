"""The lease: one holder at a time, and no change of holder without need."""

import asyncio

import pytest

from sluice.log.runtime.lease import KvLease
from tests.support.waiting import eventually, stays

pytestmark = pytest.mark.nats


@pytest.fixture
async def leases(open_log):
    made = []

    async def make(holder, ttl_s=0.5):
        lease = KvLease(await open_log(), "bank", holder, ttl_s)
        lease.start(lambda: None)
        lease.candidate(True)
        made.append(lease)
        return lease

    yield make
    for lease in made:
        await lease.release()


async def test_only_one_holds_it_and_release_passes_it_on(leases):
    one = await leases("one")
    await eventually(lambda: one.held)
    two = await leases("two")
    await stays(lambda: (one.held, two.held) == (True, False), 1.0)
    assert await one.confirm()
    assert not await two.confirm()

    await one.release()
    await eventually(lambda: two.held, 0.4)


async def test_silent_holder_is_replaced_and_told(leases):
    """A holder that does not renew loses it after the lease's time, and finds out when it asks."""
    one = await leases("one")
    await eventually(lambda: one.held)
    two = await leases("two")
    await asyncio.sleep(0.2)
    one._task.cancel()

    await eventually(lambda: two.held, 1.5)
    assert one.held
    assert not await one.confirm()
    assert not one.held


async def test_replica_that_is_not_ready_does_not_take_it(leases):
    one = await leases("one")
    one.candidate(False)
    two = await leases("two")
    await eventually(lambda: two.held)

    assert not one.held


async def test_restart_of_the_server_does_not_move_it(nats_server, leases):
    """The holder keeps it although the server has forgotten it."""
    one = await leases("one")
    await eventually(lambda: one.held)
    two = await leases("two")
    await asyncio.sleep(0.3)

    await asyncio.to_thread(nats_server.restart)

    await eventually(one.confirm)
    assert (one.held, two.held) == (True, False)
