"""The runner over the log in memory: what the leader has is what the log says."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.events.base import WorkloadKey
from sluice.events.codec import decode_commit, encode_commit
from sluice.events.commit import Step
from sluice.events.scheduler import Admitted, Requeued
from sluice.log.contract import Entry
from sluice.log.errors import EventLogError
from sluice.log.fold import Fold, FoldError, replay
from sluice.log.memory import MemoryLog
from sluice.log.runtime.hooks import Hooks
from sluice.log.runtime.runner import Runner, Settings
from sluice.log.runtime.snapshot import Snapshots
from tests.integration.log.bank import INTEREST_US, Bank, order
from tests.support.examples import examples
from tests.support.memory_store import MemoryStore
from tests.support.waiting import PATIENCE_S


class Clock:
    def __init__(self, at):
        self.at = at

    def __call__(self):
        self.at += 1
        return self.at


class Lease:
    """A leadership that tests give and take."""

    def __init__(self, *, held):
        self.held, self.ready, self.released = held, False, False

    def start(self, changed):
        self.changed = changed

    def candidate(self, ready):
        self.ready = ready

    async def confirm(self):
        return self.held

    async def release(self):
        self.released = True

    def give(self, *, held):
        self.held = held
        self.changed()


@contextlib.asynccontextmanager
async def running(log, **options):
    options.setdefault("clock", Clock(log._now()))
    runner = Runner(options.pop("decider", None) or Bank(), log, **options)
    task = asyncio.create_task(runner.run())
    try:
        yield runner
    finally:
        runner.stop()
        await asyncio.wait_for(task, PATIENCE_S)


async def eventually(condition):
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - nothing else runs in this loop
            await asyncio.sleep(0)


def dump(fold):
    return Bank().dump(fold.state)


def caught_up(runner):
    """All inputs are folded, and all decisions are in the log."""
    inputs = [e.seq for e in runner.log.entries if e.suffix != "scheduler"]
    return runner.settled and runner.fold.upto == inputs[-1] and not runner.fold.state.orders


def replayed(log):
    return replay(Bank(), log.entries)


async def test_decides_commits_and_is_what_the_log_says():
    log = MemoryLog()
    async with running(log) as runner:
        for n in range(50):
            await log.append(f"job.a.b{n}", order(f"o{n}", 1 if n % 3 else -1))
        await eventually(lambda: caught_up(runner))

        assert sum(runner.fold.state.done.values()) + runner.fold.state.refused == 50
        assert dump(replayed(log)) == dump(runner.fold)


async def test_busy_leader_coalesces_and_idle_one_commits_at_once():
    """What is decided while a commit is in flight goes out with the next one."""
    log = MemoryLog()
    for n in range(100):
        await log.append("job.a.b", order(f"o{n}"))
    async with running(log) as runner:
        await eventually(lambda: runner.settled and runner.fold.state.balance == 100)
        burst = runner.metrics.commits
        await log.append("job.a.b", order("single"))
        await eventually(lambda: runner.settled and runner.fold.state.balance == 101)

    assert burst <= 3
    assert runner.metrics.commits == burst + 1


async def test_steps_say_what_was_folded_before_them():
    """Every step can be decided again from what its `upto` and `at` name (law 6)."""
    log = MemoryLog()
    async with running(log) as runner:
        for n in range(20):
            await log.append("job.a.b", order(f"o{n}", 2 - n % 4))
            await asyncio.sleep(0)
        await eventually(lambda: caught_up(runner))

    inputs = [e for e in log.entries if e.suffix != "scheduler"]
    fold = Fold(Bank())
    for entry in log.entries:
        for step in decode_commit(entry.payload).steps if entry.suffix == "scheduler" else ():
            while inputs and inputs[0].seq <= step.upto:
                fold.fold(inputs.pop(0))
            assert tuple(Bank().decide(fold.state, step.at)) == step.events
            fold.apply_own(step)


async def test_deadline_is_decided_when_it_comes():
    log = MemoryLog()
    clock = Clock(log._now())
    async with running(log, clock=clock) as runner:
        await log.append("job.a.b", order("o"))
        await eventually(lambda: runner.settled and runner.fold.state.balance == 1)
        assert runner.fold.state.interests == 0
        clock.at += INTEREST_US
        runner._wake.set()
        await eventually(lambda: runner.fold.state.interests == 1 and runner.settled)

        assert dump(replayed(log)) == dump(runner.fold)


async def test_time_never_goes_back():
    """A clock behind the log, or set back, does not show in the steps."""
    log = MemoryLog()
    async with running(log, clock=lambda: 5) as runner:
        await log.append("job.a.b", order("o"))
        await eventually(lambda: runner.settled and runner.fold.state.balance == 1)

    (commit,) = [e for e in log.entries if e.suffix == "scheduler"]
    assert decode_commit(commit.payload).steps[0].at == log.entries[0].at


async def test_standby_is_warm_and_takes_over():
    """A stand-by follows without deciding, and goes on where the leader stopped."""
    log = MemoryLog()
    first, second = Lease(held=True), Lease(held=False)
    async with running(log, leadership=first), running(log, leadership=second) as standby:
        for n in range(10):
            await log.append("job.a.b", order(f"o{n}"))
        await eventually(lambda: standby.fold.state.balance == 10)
        assert (standby.role, second.ready) == ("standby", True)

        first.give(held=False)
        second.give(held=True)
        await log.append("job.a.b", order("last"))
        await eventually(lambda: standby.settled and standby.fold.state.balance == 11)

        assert set(standby.fold.state.done.values()) == {1}
        assert dump(replayed(log)) == dump(standby.fold)
    assert first.released
    assert second.released


async def test_two_leaders_at_once_decide_nothing_twice():
    """Both believe that they lead; the chain lets one through at a time."""
    log = MemoryLog()
    async with running(log) as one, running(log) as other:
        for n in range(200):
            await log.append("job.a.b", order(f"o{n}"))
            if n % 10 == 0:
                await asyncio.sleep(0)
        await eventually(
            lambda: all(caught_up(r) for r in (one, other)) or (one.metrics.fenced + other.metrics.fenced > 3)
        )
        await eventually(lambda: replayed(log).state.balance == 200)

    final = replayed(log)
    assert set(final.state.done.values()) == {1}
    assert one.metrics.fenced + other.metrics.fenced > 0


class Delaying(MemoryLog):
    """A log that leaves commits on their way, while it is told to."""

    def __init__(self):
        super().__init__()
        self.delays, self.under_way = False, []

    async def append(self, suffix, payload, **expected):
        if self.delays and suffix == "scheduler":
            self.under_way.append(lambda: MemoryLog.append(self, suffix, payload, **expected))
            await asyncio.Event().wait()
        return await super().append(suffix, payload, **expected)


async def test_a_late_commit_of_an_earlier_life_fences():
    """Who lost the lease and has it again knows nothing of what it sent before: its state lacks it."""
    log, lease, clock = Delaying(), Lease(held=True), Clock(0)
    clock.at = begin = log._now()
    async with running(log, leadership=lease, clock=clock) as runner:
        await log.append("job.a.b", order("o"))
        await eventually(lambda: runner.settled and runner.fold.state.balance == 1)
        log.delays = True
        clock.at += INTEREST_US
        runner._wake.set()
        await eventually(lambda: log.under_way)

        lease.give(held=False)
        await eventually(lambda: runner.role == "standby")
        log.delays, clock.at = False, begin
        lease.give(held=True)
        await eventually(lambda: runner.settled)
        assert runner.fold.state.interests == 0
        await log.under_way[0]()
        await eventually(lambda: runner.settled and runner.fold.state.interests == 1)

        assert dump(replayed(log)) == dump(runner.fold)


class Restless(Bank):
    """Has something to decide for ever, as long as nobody has paid anything in."""

    def decide(self, state, at):
        if state.balance == 0 and not state.orders:
            return (Requeued(cause=0, workload=WorkloadKey("bank"), reason="Restless"),)
        return super().decide(state, at)


async def test_what_never_settles_still_hears_the_log():
    """A decider that goes round does not keep out the input that would end it."""
    log = MemoryLog()
    pace = Settings(turn_steps=10)
    async with running(log, decider=Restless(), settings=pace) as runner:
        await eventually(lambda: runner.metrics.steps > 50)
        assert not runner.settled
        await log.append("job.a.b", order("paid"))
        await eventually(lambda: runner.settled)

        assert runner.fold.state.done == {"paid": 1}
        assert dump(replayed(log)) == dump(runner.fold)


class Attentive(Bank):
    """Decides one order at a time, as every bank here, and tells how many it knew by then."""

    def __init__(self):
        self.known = []

    def decide(self, state, at):
        self.known.append(len(state.done) + len(state.orders))
        return super().decide(state, at)


async def test_inputs_are_taken_in_while_much_is_to_be_decided():
    """What comes meanwhile may have to be decided first; it does not wait until all else is."""
    log, decider = MemoryLog(), Attentive()
    async with running(log, decider=decider, settings=Settings(yield_s=0.0)) as runner:
        for n in range(50):
            await log.append("job.a.b", order(f"o{n}"))
        await eventually(lambda: len(runner.fold.state.done) > 5)
        assert not runner.settled
        await log.append("job.a.b", order("late"))
        done = len(runner.fold.state.done)
        await eventually(lambda: runner.settled)

        assert decider.known[done + 5] == 51
        assert dump(replayed(log)) == dump(runner.fold)


async def test_standby_holds_a_bounded_number_of_inputs_back():
    """A leader that has nothing to decide says so now and then."""
    log = MemoryLog()
    pace = Settings(mark_inputs=10)
    async with (
        running(log, settings=pace) as leader,
        running(log, settings=pace, leadership=Lease(held=False)) as standby,
    ):
        config = encode_commit("main", "config", "c", [Step(upto=0, at=1)])
        for _ in range(95):
            await log.append("config", config)
            await asyncio.sleep(0)
        await eventually(lambda: caught_up(leader) and standby.fold.own == leader.fold.own > 0)

        assert len(standby.fold.held) < 20
        assert dump(standby.settled_copy()) == dump(leader.fold)


async def test_snapshot_and_tail_are_the_whole_log():
    """A start from a snapshot gives the very state that a full replay gives."""
    log, store = MemoryLog(), MemoryStore()
    pace = Settings(snapshot_events=30, fold_chunk=7)
    async with running(log, snapshots=Snapshots(store), settings=pace) as runner:
        for n in range(300):
            await log.append("job.a.b", order(f"o{n}", 1 - n % 3))
            if n % 25 == 0:
                await eventually(lambda: caught_up(runner) and runner._snapshot_task is None)
        await eventually(lambda: caught_up(runner))
        live = dump(runner.fold)

    assert len(store.blobs) >= 3
    for name in list(store.blobs):
        loaded = await Snapshots(MemoryStore()).newest(Bank(), 10**9)
        assert loaded is None
        single = MemoryStore()
        single.blobs[name] = store.blobs[name]
        fold = await Snapshots(single).newest(Bank(), log.entries[-1].seq)
        assert fold.upto > 0
        tail = [e for e in log.entries if e.seq > fold.upto]
        assert dump(replay(Bank(), tail, fold)) == live == dump(replayed(log))


async def test_decisions_do_not_wait_for_a_snapshot(tmp_path):
    """What takes long to write down is written by a child, and is the state of when it began."""
    let_go = tmp_path / "go"

    class SlowBank(Bank):
        def dump(self, state):
            while not let_go.exists():
                time.sleep(0.01)
            return super().dump(state)

    log, store = MemoryLog(), MemoryStore()
    pace = Settings(snapshot_events=1, snapshot_s=10**6)
    async with running(log, decider=SlowBank(), snapshots=Snapshots(store), settings=pace) as runner:
        await log.append("job.a.b", order("first"))
        await eventually(lambda: runner._snapshot_task is not None or runner._saving is not None)
        balance, upto = runner.fold.state.balance, runner.fold.upto
        await log.append("job.a.b", order("second"))
        await eventually(lambda: caught_up(runner) and runner.fold.state.balance == balance + 1)
        assert not store.blobs
        let_go.touch()
        await eventually(lambda: store.blobs)

        kept = MemoryStore()
        kept.blobs = dict(store.blobs)
    first = await Snapshots(kept).newest(Bank(), log.entries[-1].seq)
    assert (first.upto, first.state.balance) == (upto, balance)


async def test_a_snapshot_whose_child_is_killed_is_taken_again(monkeypatch):
    """A lost one costs nothing but a warning; so does one of steps that never came into the log."""
    pids = []

    class Doomed(Bank):
        def dump(self, state):
            if len(pids) < 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().dump(state)

    fork = os.fork

    def noted():
        # In the child the list has its own number already.
        pid = fork()
        pids.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", noted)
    log, store = MemoryLog(), MemoryStore()
    pace = Settings(snapshot_events=1, snapshot_retry_s=0.1)
    async with running(log, decider=Doomed(), snapshots=Snapshots(store), settings=pace) as runner:
        await log.append("job.a.b", order("first"))
        await eventually(lambda: store.blobs)
        assert len(pids) == 2
        await eventually(lambda: caught_up(runner))


async def test_a_snapshot_that_cannot_be_stored_is_tried_ever_more_seldom():
    """Up to a bound; once one is stored, the next failure begins with the shortest delay again."""
    failures = 6

    class FullStore(MemoryStore):
        async def put(self, name, data, description):
            begun.append(runner._snapshot_at)
            if len(begun) == 1 + failures:
                await super().put(name, data, description)
                return
            raise EventLogError("no space left")

    begun: list[float] = []
    log, store = MemoryLog(), FullStore()
    pace = Settings(snapshot_events=1, snapshot_s=10**6, snapshot_retry_s=0.01, snapshot_retry_most_s=0.04)
    async with running(log, snapshots=Snapshots(store), settings=pace) as runner:
        await log.append("job.a.b", order("first"))
        await eventually(lambda: store.blobs and runner._snapshot_task is None)
        gaps = [later - earlier for earlier, later in itertools.pairwise(begun)]
        least = (0.01, 0.02, 0.04, 0.04, 0.04, 0.04)
        assert all(gap >= delay for gap, delay in zip(gaps, least, strict=True)), gaps
        await log.append("job.a.b", order("second"))
        await eventually(lambda: len(begun) == 2 + failures and runner._snapshot_task is None)
        assert runner._snapshot_delay_s() == 0.01


async def test_what_came_while_a_snapshot_was_stored_gets_another():
    """Though nothing comes afterwards that would wake the runner."""

    class SlowStore(MemoryStore):
        async def put(self, name, data, description):
            await open_.wait()
            await super().put(name, data, description)

    open_ = asyncio.Event()
    log, store = MemoryLog(), SlowStore()
    pace = Settings(snapshot_events=1, snapshot_s=10**6)
    async with running(log, snapshots=Snapshots(store), settings=pace) as runner:
        await log.append("job.a.b", order("first"))
        await eventually(lambda: runner._snapshot_task is not None)
        await log.append("job.a.b", order("second"))
        await eventually(lambda: caught_up(runner))
        open_.set()
        await eventually(lambda: len(store.blobs) == 2)


@pytest.mark.parametrize("damage", ["version", "bytes", "truncated", "ahead"])
async def test_unusable_snapshot_means_full_replay(damage, monkeypatch):
    log, store = MemoryLog(), MemoryStore()
    async with running(log, snapshots=Snapshots(store), settings=Settings(snapshot_events=1)) as runner:
        await log.append("job.a.b", order("o"))
        await eventually(lambda: runner.settled and runner.fold.state.balance == 1)
        await eventually(lambda: store.blobs and runner._snapshot_task is None)
    ((name, (data, info)),) = store.blobs.items()
    changed = json.loads(info)
    if damage == "version":
        monkeypatch.setattr(Bank, "state_version", 2)
    elif damage == "bytes":
        changed["digest"] = "0" * 64
    elif damage == "truncated":
        data = data[:-5]
    else:
        changed["upto"] = 10_000
    store.blobs[name] = (data, json.dumps(changed).encode())

    assert await Snapshots(store).newest(Bank(), 10) is None
    async with running(log, snapshots=Snapshots(store)) as again:
        await eventually(lambda: again.settled)
        assert dump(again.fold) == dump(replayed(log))


class Witness(Hooks):
    def __init__(self):
        self.calls = []

    def decided(self, state, step):
        return (state.balance, len(step.events))

    def committed(self, _state, _steps, seq, effects):
        self.calls.append((seq, effects))

    def leading(self, _state, own):
        self.calls.append(("leading", own))

    def following(self):
        self.calls.append("following")


async def test_effects_are_those_of_their_step():
    """What a hook shows after the commit is what it saw right after the decision."""
    log, witness = MemoryLog(), Witness()
    for n in range(3):
        await log.append("job.a.b", order(f"o{n}"))
    async with running(log, hooks=[witness]) as runner:
        await eventually(lambda: runner.settled and runner.fold.state.balance == 3)

    assert witness.calls[0] == ("leading", 0)
    effects = [effect for seq, effects in witness.calls[1:-1] for effect in effects]
    assert effects == [(1, 1), (2, 1), (3, 1)]
    assert witness.calls[-1] == "following"


async def test_what_cannot_be_folded_stops_the_service():
    """A commit with events that this code does not know is not skipped; the error names place and event."""
    log = MemoryLog()
    payload = encode_commit(
        "main", "config", "c", [Step(upto=0, at=1, events=(Admitted(cause=1, workload=WorkloadKey("x")),))]
    )
    await log.append("config", payload.replace(b'"Admitted"', b'"Teleported"'))
    runner = Runner(Bank(), log)

    with pytest.raises(FoldError, match=r"config at seq 1: event 'Teleported' of writer 'config'"):
        await asyncio.wait_for(runner.run(), 5)
    assert isinstance(FoldError("a", 1, "b", "", "c"), EventLogError)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 3)), max_size=40), st.integers(1, 9))
def test_late_commits_rebuild_as_the_leader_saw_it(history, chunk):
    """However late the commits stand in the log, the order of folding is the leader's."""
    bank, leader = Bank(), Fold(Bank())
    log, waiting = [], []

    def flush(count):
        for _ in range(min(count, len(waiting))):
            step = waiting.pop(0)
            log.append(Entry(len(log) + 1, "scheduler", 1, encode_commit("main", "scheduler", "x", [step])))

    unread = []
    for amount, lag in history:
        log.append(Entry(len(log) + 1, "job.a.b", 1, order(f"o{len(log)}", amount)))
        unread.append(log[-1])
        if len(unread) >= chunk:
            for entry in unread:
                leader.fold(entry)
            unread.clear()
        while events := bank.decide(leader.state, leader.at):
            step = Step(upto=leader.upto, at=leader.at, events=tuple(events))
            leader.apply_own(step)
            waiting.append(step)
        flush(lag)
    flush(len(waiting))
    for entry in unread:
        leader.fold(entry)

    assert dump(replay(bank, log)) == dump(leader)
