"""The runner: drives a `replica` over a log. It owns the clock, the role, commits and snapshots.

A life begins with a rebuild (newest snapshot and the tail behind it), goes on as a stand-by that keeps
its state warm, and leads while it has the lease. Whoever is fenced begins a new life.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from sluice.events.base import Micros
from sluice.log.contract import Log, Tail
from sluice.log.decider import Decider
from sluice.log.errors import EventLogError, StaleSequenceError
from sluice.log.fold import Fold
from sluice.log.nats.consumer import HistoryLostError, LogReplacedError
from sluice.log.writer import CommitWriter, Written

from . import gc_tuning
from .background_fork import in_copy_beside
from .bases import Bases, NoBaseError
from .clock import LogTime, wall_clock
from .hooks import Hooks
from .leadership import Alone, Leadership
from .metrics import RunnerMetrics
from .replica import Fenced, Moment, Replica
from .snapshot import Packed, Snapshots, pack
from .snapshot_info import SnapshotInfo
from .spans import Spans

log = structlog.get_logger("sluice.log.runner")


@dataclass(frozen=True, slots=True)
class Settings:
    """How the runner paces itself."""

    fold_chunk: int = 1_000
    """Most inputs folded before deciding again, and before others get their turn."""
    yield_s: float = 0.002
    """After so long of deciding, what there is gets committed, inputs are taken in, others get their turn."""
    turn_steps: int = 2_000
    """After so many steps without having settled, inputs are taken in before more is decided."""
    mark_inputs: int = 1_000
    """After so many inputs without a decision, a step without events says how far the leader has come."""
    snapshot_events: int = 100_000
    snapshot_s: float = 300.0
    snapshot_retry_s: float = 5.0
    """A snapshot that could not be stored is tried again after so long, then after twice that, and so on."""
    snapshot_retry_most_s: float = 300.0
    """The longest of these delays."""
    stop_s: float = 5.0
    """Most time to finish the commit in flight when stopping."""


class Runner[S]:
    """Runs *decider* on *target* until stopped."""

    def __init__(
        self,
        decider: Decider[S],
        target: Log,
        *,
        leadership: Leadership | None = None,
        snapshots: Snapshots | None = None,
        bases: Bases | None = None,
        hooks: Sequence[Hooks[S]] = (),
        clock: Callable[[], Micros] = wall_clock,
        settings: Settings | None = None,
        instance: str = "",
        spans: Spans | None = None,
    ) -> None:
        self.log = target
        self._time = LogTime(clock)
        self.leadership: Leadership = leadership or Alone()
        self.snapshots, self.bases = snapshots, bases
        self.settings = settings or Settings()
        self.metrics = RunnerMetrics(decider.writer)
        self._spans = spans or Spans(decider.writer)
        self.writer = CommitWriter(target, decider.writer, instance=instance)
        self.replica: Replica[S] = Replica(
            decider, self.writer.wrote, hooks, mark_inputs=self.settings.mark_inputs
        )
        self.role = "starting"
        self.tail: Tail | None = None
        self._wake = asyncio.Event()
        self._stopping = False
        self._failure: BaseException | None = None
        self._commit_task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._saving: tuple[Moment, asyncio.Future[Packed]] | None = None
        """A state packed, of which not all steps are in the log yet."""
        self._snapshot_folded = 0
        """How many events the newest snapshot has folded."""
        self._snapshot_at = 0.0
        """When the last attempt at one began."""
        self._snapshot_of = 0
        """How many events the one under way has folded."""
        self._snapshot_failures = 0
        """How many attempts in a row came to nothing."""
        self._snapshot_task: asyncio.Task[SnapshotInfo] | None = None

    @property
    def decider(self) -> Decider[S]:
        return self.replica.decider

    @property
    def fold(self) -> Fold[S]:
        return self.replica.fold

    # life

    def stop(self) -> None:
        """Ask `run` to end in order: the commit in flight is finished and the lease given up."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Run until `stop`.

        Raises:
            EventLogError: the log cannot be followed by this code, or the decider cannot fold it.
        """
        self.leadership.start(self._wake.set)
        try:
            while not self._stopping:
                try:
                    with self._spans.rebuilding():
                        await self._rebuild()
                    await self._stand_by()
                    if not self._stopping:
                        await self._lead()
                except (Fenced, StaleSequenceError) as reason:
                    self.metrics.fenced += 1
                    log.warning("fenced", writer=self.decider.writer, reason=str(reason))
                    # Two that believe to lead would go on fencing each other.
                    await self.leadership.confirm()
                except LogReplacedError as error:
                    log.error("log replaced, beginning anew", error=str(error))
                    await asyncio.sleep(0.2)
                except HistoryLostError as error:
                    log.warning("log was cut, beginning anew", error=str(error))
                    await asyncio.sleep(0.2)
                finally:
                    await self._end_life()
        finally:
            self._set_role("stopped")
            self._forget_snapshot()
            if self._snapshot_task is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.settings.stop_s):
                        await self._snapshot_task
            await self.leadership.release()

    def _set_role(self, role: str) -> None:
        if role != self.role:
            log.info("role", writer=self.decider.writer, role=role, upto=self.fold.upto, own=self.fold.own)
        self.role = self.metrics.role = role

    async def _end_life(self) -> None:
        self._set_role("standby")
        self.replica.end()
        if self._commit_task is not None:
            self._commit_task.cancel()
            with contextlib.suppress(asyncio.CancelledError, EventLogError):
                await self._commit_task
            self._commit_task = None
        if self._timer is not None:
            self._timer.cancel()
        tail, self.tail = self.tail, None
        if tail is not None:
            await tail.close()

    # rebuilding and standing by

    async def _rebuild(self) -> None:
        started = time.perf_counter()
        self.leadership.candidate(False)
        self._failure = None
        self._forget_snapshot()
        first, end = await self._extent_of_log()
        if self.fold.folded:
            self.replica.begin(Fold(self.decider))
            gc_tuning.look_through()
        loaded = await self.snapshots.newest(self.decider, end) if self.snapshots is not None else None
        self.replica.begin(await self._with_history(loaded or Fold(self.decider), first, end))
        self._snapshot_folded, self._snapshot_at = self.fold.folded, time.monotonic()
        filters = [*sorted(self.decider.reads), self.decider.writer]
        begin = max(self.fold.upto, self.fold.after)
        self.tail = self.log.tail(begin + 1, filters, self._wake.set)
        with gc_tuning.put_off():
            while not self._stopping and not self.tail.reached(end):
                self._wake.clear()
                if not await self._take_in():
                    await self._wake.wait()
        log.info(
            "rebuilt",
            writer=self.decider.writer,
            snapshot=begin,
            upto=self.fold.upto,
            own=self.fold.own,
            events=self.fold.folded - self._snapshot_folded,
            seconds=round(time.perf_counter() - started, 3),
        )

    async def _with_history(self, start: Fold[S], first: int, end: int) -> Fold[S]:
        """Return *start*, or a base, if the log does not have what follows on *start* any more.

        Raises:
            NoBaseError, BaseMismatchError: there is no state to go on from.
        """
        if max(start.upto, start.after) + 1 >= first:
            return start
        if self.bases is None:
            raise NoBaseError(self.decider.writer, first)
        return await self.bases.fold(self.decider, first, end)

    async def _extent_of_log(self) -> tuple[int, int]:
        while True:
            try:
                # In this order: a log that is cut meanwhile is looked at anew.
                return await self.log.first(), await self.log.end()
            except EventLogError as error:
                log.info("log not available", error=str(error))
                await asyncio.sleep(0.2)
                if self._stopping:
                    return 1, 0

    async def _take_in(self) -> bool:
        """Fold what has arrived, as a stand-by; tell whether there was anything."""
        assert self.tail is not None
        entries = self.tail.take()
        chunk = self.settings.fold_chunk
        for begin in range(0, len(entries), chunk):
            self.replica.follow(entries[begin : begin + chunk])
            await asyncio.sleep(0)
        self._measure()
        return bool(entries)

    async def _stand_by(self) -> None:
        """Keep the state warm; returns as the leader, with every commit of the chain folded, or to stop."""
        self._set_role("standby")
        self.leadership.candidate(True)
        while not self._stopping:
            while not self.leadership.held and not self._stopping:
                self._wake.clear()
                if not await self._take_in() and not self.leadership.held:
                    await self._wake.wait()
            started = time.perf_counter()
            head = await self.writer.find_head()
            while self.fold.own < head and self.leadership.held and not self._stopping:
                self._wake.clear()
                if not await self._take_in():
                    await self._wake.wait()
            if self.leadership.held:
                self.metrics.takeovers += 1
                log.info(
                    "taking over", writer=self.decider.writer, head=head, after=time.perf_counter() - started
                )
                return

    # leading

    def _now(self) -> Micros:
        return self._time.now(self.fold.at)

    async def _lead(self) -> None:
        assert self.tail is not None
        replica, tail = self.replica, self.tail
        replica.lead()
        self._set_role("leader")
        await self._settle()
        while True:
            self._wake.clear()
            self._check()
            if self._stopping:
                await self._finish()
                return
            entries = tail.take()
            chunk = self.settings.fold_chunk
            for begin in range(0, len(entries), chunk):
                if begin:
                    await asyncio.sleep(0)
                    self._check()
                self._spans.heard(entries[begin : begin + chunk])
                if replica.hear(entries[begin : begin + chunk]):
                    await self._settle(more=begin + chunk < len(entries))
            if not replica.settled or (replica.due is not None and self._now() >= replica.due):
                await self._settle()
            self._measure()
            if replica.settled:
                self._consider_snapshot()
            if not entries and replica.settled:
                await self._wake.wait()

    def _check(self) -> None:
        """Raise what ends this life: a failed commit, a lost lease."""
        if self._failure is not None:
            raise self._failure
        if not self.leadership.held:
            raise Fenced("the lease is another's")

    async def _settle(self, *, more: bool = False) -> None:
        with self._spans.deciding(self.replica):
            await self._decide(more=more)

    async def _decide(self, *, more: bool) -> None:
        """Decide until there is nothing more to decide; commits go out meanwhile.

        What comes in meanwhile may have to be answered first, so the turn ends after a while if there is
        anything: *more* inputs that were taken, or others that the log has.

        Should a decider find something to decide for ever, the turn ends all the same: what comes in next may
        be what ends it, and the log shows what goes round.
        """
        assert self.tail is not None
        replica, steps, before = self.replica, 0, self.replica.decided
        turn = time.perf_counter()
        while (step := replica.decide(self._now())) is not None:
            steps += 1
            if steps >= self.settings.turn_steps:
                last = type(step.events[0]).__name__
                log.warning("not settled yet", writer=self.decider.writer, steps=steps, last=last)
                self._commit()
                await asyncio.sleep(0)
                break
            if time.perf_counter() - turn > self.settings.yield_s:
                self._commit()
                await asyncio.sleep(0)
                self._check()
                if more or self.tail.lag:
                    break
                turn = time.perf_counter()
        self.metrics.steps += replica.decided - before
        if replica.settled:
            self._commit()
            self._arm()

    def _arm(self) -> None:
        """Set the alarm for the state's deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.replica.due is not None:
            self._alarm()

    def _alarm(self) -> None:
        """Wake at the deadline. The wall clock is asked again: timers run by another one."""
        due, self._timer = self.replica.due, None
        if due is None:
            return
        wait = due - self._now()
        if wait <= 0:
            self._wake.set()
            return
        delay_s = min(math.ceil(wait / 1000) / 1000, 3600.0)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._alarm)

    # committing

    def _commit(self) -> None:
        """See to it that what is pending gets committed; when one commit is in flight, with the next."""
        if self.replica.pending and self._commit_task is None:
            self._commit_task = asyncio.create_task(self._commit_all(), name=f"{self.decider.writer}-commit")

    async def _commit_all(self) -> None:
        assert self.tail is not None
        sure = self.tail.until_sure
        try:
            while steps := self.replica.take():
                with self._spans.committing(len(steps)) as span:
                    await self.writer.write(steps, self._on_written, sure)
                    span.set_attribute("sluice.seq", self.writer.head)
        except Exception as error:
            self._failure = error
        finally:
            self._commit_task = None
            self._wake.set()

    def _on_written(self, written: Written) -> None:
        self.replica.written(written.seq, written.steps)
        self.metrics.committed(written)
        self._note_snapshot(written.seq)

    async def _finish(self) -> None:
        """Let the commit in flight land, and what is decided with it."""
        try:
            async with asyncio.timeout(self.settings.stop_s):
                while self._commit_task is not None:
                    await asyncio.wait([self._commit_task])
                for hook in self.replica.hooks:
                    await hook.drain()
        except TimeoutError:
            log.warning("stopped with a commit under way", writer=self.decider.writer)
        if self._failure is not None:
            raise self._failure

    # snapshots

    def _consider_snapshot(self) -> None:
        if self.snapshots is None or self._saving is not None or self._snapshot_task is not None:
            return
        events = self.fold.folded - self._snapshot_folded
        age_s = time.monotonic() - self._snapshot_at
        if events < self.settings.snapshot_events and not (age_s > self.settings.snapshot_s and events):
            return
        if age_s < self._snapshot_delay_s():
            return
        self._snapshot_at, self._snapshot_of = time.monotonic(), self.fold.folded
        decider, state = self.decider, self.fold.state
        # In a child process: decisions would wait for the bytes of a large state.
        packed = in_copy_beside(lambda: pack(decider.dump(state)))
        moment = self.replica.moment()
        if moment.steps == self.replica.written_steps:
            self._store(packed, moment, self.fold.own)
        else:
            self._saving = (moment, packed)
            self.replica.cut_at(moment)

    def _snapshot_delay_s(self) -> float:
        """Return how long after the beginning of an attempt the next one may begin.

        Each takes a fork and packs the whole state, and a store that is full or away often stays so for long.
        """
        if not self._snapshot_failures:
            return 0.0
        # Bounded before it is shifted: nobody counts how long a store is away.
        doublings = 1 << min(self._snapshot_failures - 1, 20)
        return min(self.settings.snapshot_retry_s * doublings, self.settings.snapshot_retry_most_s)

    def _note_snapshot(self, own: int) -> None:
        """Store a snapshot once its last step is in the log, since only then it is of the log."""
        if self._saving is not None and self._saving[0].steps == self.replica.written_steps:
            (moment, packed), self._saving = self._saving, None
            self._store(packed, moment, own)

    def _forget_snapshot(self) -> None:
        """Drop one of steps that never came into the log."""
        if self._saving is not None:
            self._saving[1].cancel()
            self._saving = None

    def _store(self, packed: asyncio.Future[Packed], moment: Moment, own: int) -> None:
        self.metrics.snapshots += 1
        self._snapshot_task = asyncio.create_task(self._stored(packed, moment, own))
        self._snapshot_task.add_done_callback(self._snapshot_done)

    async def _stored(self, packed: asyncio.Future[Packed], moment: Moment, own: int) -> SnapshotInfo:
        assert self.snapshots is not None
        writer, version = self.decider.writer, self.decider.state_version
        # Who looks into the past starts from these, too.
        return await self.snapshots.store_packed(
            writer, version, await packed, moment.upto, moment.at, own, far_back=True
        )

    def _snapshot_done(self, task: asyncio.Task[SnapshotInfo]) -> None:
        self._snapshot_task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._snapshot_failures = 0
            self._snapshot_folded = self._snapshot_of
            # Enough for another may have come meanwhile, and nothing else may come.
            self._wake.set()
        else:
            # The log has everything; a snapshot only saves time.
            self._snapshot_failures += 1
            wait_s = max(0.0, self._snapshot_at + self._snapshot_delay_s() - time.monotonic())
            said = {"error": str(error), "again_s": round(wait_s, 1)}
            log.warning("snapshot failed", writer=self.decider.writer, **said)
            # A little later, as timers may be early, and nothing else may come.
            asyncio.get_running_loop().call_later(wait_s + 0.001, self._wake.set)

    # looking in

    def settled_copy(self) -> Fold[S]:
        """Return a copy of the state with the inputs held back folded: as a leader here would start."""
        fold = self.fold
        copy = Fold(self.decider, self.decider.load(self.decider.dump(fold.state)), fold.upto)
        copy.at, copy.own = fold.at, fold.own
        copy.held.extend(fold.held)
        copy.release()
        return copy

    @property
    def settled(self) -> bool:
        """Whether this is a leader with nothing left to decide or to commit."""
        return self.role == "leader" and self.replica.idle

    def _measure(self) -> None:
        self.metrics.folded = self.fold.folded
        self.metrics.upto = self.fold.upto
        self.metrics.lag = (self.tail.lag if self.tail is not None else 0) + len(self.fold.held)
