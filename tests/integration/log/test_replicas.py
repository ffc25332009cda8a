"""Replicas as processes: take-over, fencing, and what survives kill -9 of anything."""

import asyncio
import itertools
import signal

import pytest

from sluice.log.errors import UnansweredError
from sluice.log.fold import replay
from sluice.log.nats.blocking import BulkReader
from sluice.log.nats.jetstream import read_stream
from tests.support.waiting import PATIENCE_S, eventually

from .bank import Bank as BankDecider
from .bank import order

pytestmark = pytest.mark.nats

DUMP = BankDecider().dump


class Customer:
    """Sends orders without pause, one after another, until stopped; each exactly once."""

    def __init__(self, log):
        self.log, self.sent, self._stop = log, 0, False
        self.task = asyncio.create_task(self._send())

    async def _send(self):
        for n in itertools.count():
            if self._stop:
                return
            while True:
                try:
                    await self.log.append(f"job.a.o{n % 9}", order(f"o{n}"), msg_id=f"o{n}")
                    break
                except UnansweredError:
                    await asyncio.sleep(0.02)
            self.sent += 1
            await asyncio.sleep(0.001)

    async def stop(self):
        self._stop = True
        await self.task


def rebuilt(server):
    """Return what the log says, read from its beginning."""
    return replay(BankDecider(), [e for batch in BulkReader(server.url, "main") for e in batch])


async def all_served(server, count):
    async def done():
        return (await asyncio.to_thread(rebuilt, server)).state.balance == count

    await eventually(done)
    final = rebuilt(server)
    assert set(final.state.done.values()) <= {1}, "something was decided twice"
    assert len(final.state.done) == count
    return final


async def digests_agree(bank, server, processes):
    """Every replica has, byte for byte, the state that a full replay of the log gives."""
    from hashlib import sha256

    async def agree():
        expected = sha256(DUMP(rebuilt(server).state)).hexdigest()
        answers = [await bank.ask(process, "digest") for process in processes]
        return all(answer and answer["digest"] == expected for answer in answers)

    await eventually(agree)


async def started(bank, **env):
    """Start a leader and a warm stand-by."""
    leader = bank.start("one", **env)
    await bank.until_role(leader, "leader")
    standby = bank.start("two", **env)
    await bank.until_role(standby, "standby")
    return leader, standby


async def test_standby_takes_over_when_the_leader_is_killed(nats_server, bank, open_log):
    """Take-over with nothing lost and nothing decided twice; how long it takes is `make bench`'s business."""
    leader, standby = await started(bank)
    customer = Customer(await open_log())
    await eventually(lambda: customer.sent > 50)

    leader.kill()
    await bank.until_role(standby, "leader")

    await eventually(lambda: customer.sent > 100)
    await customer.stop()
    await all_served(nats_server, customer.sent)
    await digests_agree(bank, nats_server, [standby])


async def test_a_leader_that_ends_in_order_gives_its_lease_back(bank):
    """The stand-by leads at once: the lease itself would last for longer than the test."""
    leader, standby = await started(bank, SLUICE_LEASE_TTL_S="1000")

    leader.terminate()
    await bank.until_role(standby, "leader")

    assert leader.wait(PATIENCE_S) == 0


async def test_paused_leader_is_fenced(nats_server, bank, open_log):
    """A leader stopped and continued finds itself replaced: it rebuilds, and decides nothing twice."""
    leader, standby = await started(bank)
    customer = Customer(await open_log())
    await eventually(lambda: customer.sent > 50)

    leader.send_signal(signal.SIGSTOP)
    await bank.until_role(standby, "leader")
    await eventually(lambda: customer.sent > 200)
    leader.send_signal(signal.SIGCONT)
    await bank.until_role(leader, "standby")
    await eventually(lambda: customer.sent > 300)
    await customer.stop()

    await all_served(nats_server, customer.sent)
    await digests_agree(bank, nats_server, [leader, standby])
    assert (await bank.ask(leader))["fenced"] >= 1


async def test_two_leaders_at_once_decide_nothing_twice(nats_server, bank, open_log):
    """Two that both hold a lease (of different names) write one chain: each order is served once."""
    one = bank.start("one")
    other = bank.start("two", BANK_LEASE="other")
    await bank.until_role(one, "leader")
    await bank.until_role(other, "leader")
    customer = Customer(await open_log())
    await eventually(lambda: customer.sent > 300)
    await customer.stop()

    await all_served(nats_server, customer.sent)
    assert (await bank.ask(one))["fenced"] + (await bank.ask(other))["fenced"] > 0


async def test_server_killed_while_deciding(nats_server, bank, open_log):
    """Services reconnect to a server that was killed and go on; no acknowledged order is lost."""
    leader, standby = await started(bank)
    customer = Customer(await open_log())
    for kill in range(3):
        await eventually(lambda kill=kill: customer.sent > 60 * (kill + 1))
        await asyncio.to_thread(nats_server.restart)
    await eventually(lambda: customer.sent > 240)
    await customer.stop()

    await all_served(nats_server, customer.sent)
    await digests_agree(bank, nats_server, [leader, standby])


async def test_restart_goes_on_from_the_snapshot(nats_server, bank, open_log):
    """A start from a snapshot folds only the tail, and is the same as a full replay."""
    log = await open_log()
    leader = bank.start("one", SLUICE_SNAPSHOT_EVENTS="100")
    for n in range(300):
        await log.append("job.a.b", order(f"o{n}"))
    await all_served(nats_server, 300)
    await eventually(lambda: "snapshot stored" in bank.log("one"))
    leader.kill()

    again = bank.start("two")
    await bank.until_role(again, "leader")
    await log.append("job.a.b", order("last"))
    await all_served(nats_server, 301)
    await digests_agree(bank, nats_server, [again])
    # An order and its answer each. The first snapshot, of a hundred at least, may be the only one.
    assert (await bank.ask(again))["events"] <= 2 * 301 - 100


async def entries(log):
    """Return the projection's keys and values, read from the bucket."""
    stream = f"KV_{log.cell.bucket('accounts')}"
    connection = await log.connection()
    info = await connection.ask(f"$JS.API.STREAM.INFO.{stream}")
    if "error" in info:
        return {}
    found = {}
    async for batch in read_stream(
        log, stream, f"$KV.{log.cell.bucket('accounts')}.", info["state"]["last_seq"]
    ):
        for entry in batch:
            found[entry.suffix] = entry.payload
    return {key: payload for key, payload in found.items() if payload}


async def test_projection_is_what_the_log_says(nats_server, bank, open_log):
    """Through kills of leader and server, the bucket ends up as the state says."""
    log = await open_log()
    leader, standby = await started(bank)
    customer = Customer(log)
    await eventually(lambda: customer.sent > 80)
    leader.kill()
    await bank.until_role(standby, "leader")
    await asyncio.to_thread(nats_server.restart)
    await eventually(lambda: customer.sent > 250)
    await customer.stop()
    await log.append("job.a.b", order("poor", -100_000))
    final = await all_served(nats_server, customer.sent)

    async def shown():
        found = await entries(log)
        return set(found) == set(final.state.done)

    await eventually(shown)
    own = {e.seq for batch in BulkReader(nats_server.url, "main", filters=["scheduler"]) for e in batch}
    for value in (await entries(log)).values():
        seq, _, rest = value.partition(b",")
        assert int(seq.removeprefix(b'{"seq":')) in own
        assert rest == b'"times":1}'


async def test_projection_is_repaired_after_it_was_lost(bank, open_log):
    """The bucket can be thrown away: the next leader writes it anew; what does not belong is removed."""
    log = await open_log()
    first = bank.start("one")
    for n in range(40):
        await log.append("job.a.b", order(f"o{n}"))

    async def shown():
        return len(await entries(log)) == 40

    await eventually(shown)
    first.terminate()
    first.wait(PATIENCE_S)
    bucket = log.cell.bucket("accounts")
    connection = await log.connection()
    assert (await connection.ask(f"$JS.API.STREAM.DELETE.KV_{bucket}"))["success"]
    second = bank.start("two")
    await eventually(shown)
    second.terminate()
    second.wait(PATIENCE_S)

    await connection.request(f"$KV.{bucket}.stray", b'{"seq":0,"times":9}')
    third = bank.start("three")
    await bank.until_role(third, "leader")

    async def clean():
        return "stray" not in await entries(log)

    await eventually(clean)
    assert await shown()


async def test_wrong_settings_are_named(bank):
    process = bank.start("one", SLUICE_LEASE_TTL_S="soon")

    assert process.wait(PATIENCE_S) == 2
    assert "SLUICE_LEASE_TTL_S" in bank.log("one")


async def test_stops_in_order_while_the_server_is_away(nats_server, bank):
    leader = bank.start("one")
    await bank.until_role(leader, "leader")
    nats_server.kill()

    leader.terminate()

    assert leader.wait(PATIENCE_S) == 0
