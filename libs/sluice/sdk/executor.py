"""Be an executor: follow dispatch, take work, run it, report; the protocol is in `sluice.events.dispatch`.

    async def run(work: Work) -> Outcome:
        ...                      # start it; `await work.ready()` when all its pods run
        return Outcome()         # it has finished

    async with AsyncClient() as client:
        await Executor(client, "slurm-1", run).serve()

An elastic job is resized while it runs: `work.on_resize`, if set, is called with the new entry. Without it
the job keeps the pods that it began with, of which some may have no quota any more.

`run` is cancelled when the job must stop; it ends its processes and lets the cancellation through.
"""

import asyncio
import contextlib
import os
import secrets
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import structlog

from sluice.events.base import JobKey
from sluice.events.dispatch import DispatchEntry, Heartbeat, dispatch_key, job_of_key, key_token
from sluice.events.job import JobEvent, JobPodsReady, JobStopped
from sluice.log.errors import StaleSequenceError

from .bucket import Bucket
from .claims import Claims, Held
from .client import AsyncClient
from .errors import NotPublishedError, SdkError
from .work import Outcome, Recover, Run, Unavailable, Work, finished

log = structlog.get_logger("sluice.sdk.executor")

_ENTRIES = msgspec.json.Decoder(DispatchEntry)


class DuplicateExecutorError(SdkError):
    """Another process is at work under this executor's name."""

    def __init__(self, name: str, other: str) -> None:
        super().__init__(f"executor {name!r}: another process ({other}) has this name; names must be unique")
        self.name, self.other = name, other


@dataclass(slots=True)
class _Attempt:
    entry: DispatchEntry
    pods: int
    revision: int = 0
    """Of the claim."""
    task: asyncio.Task[None] | None = None
    work: asyncio.Task[Outcome] | None = None
    given: Work | None = None
    """What `work` was given."""
    ending: str = ""
    """'' while wanted; `stop`: to be stopped and reported; `lost`: not ours any more, nothing to report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSettings:
    """*flavors*: those served, () for all. *capacity*: most pods at once, 0 for any number."""

    flavors: Sequence[str] = ()
    capacity: int = 0
    heartbeat_s: float = 1.0
    ttl_s: float = 5.0
    """How long a heartbeat lasts: whole seconds, several beats."""
    takeover_s: float = 10.0
    """How long an owner's heartbeat must be missing before its claims are taken over."""
    check_s: float = 10.0
    """How often what runs is compared with what should run, beside following the changes."""


@dataclass
class Executor:
    """Runs the work of one cell under one name. *recover* is called for claims of an earlier life."""

    client: AsyncClient
    name: str
    run: Run
    settings: ExecutorSettings = field(default_factory=ExecutorSettings)
    recover: Recover | None = None

    def __post_init__(self) -> None:
        self.instance = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._dispatch = Bucket(self.client.log, "dispatch")
        self._heartbeats = Bucket(self.client.log, "heartbeats", memory=True)
        self._claims = Claims(self.client.log, self.name, self.instance)
        self._wanted: dict[JobKey, DispatchEntry] = {}
        self._attempts: dict[JobKey, _Attempt] = {}
        self._waiting: dict[JobKey, None] = {}
        self._foreign: dict[JobKey, DispatchEntry] = {}
        self._missing: dict[str, float] = {}
        self._stopping = asyncio.Event()
        self._room = asyncio.Event()
        self._beat_revision: int | None = None
        self._beat_at = time.monotonic()

    # life

    def stop(self) -> None:
        """End in order: what runs is stopped and reported, so that it runs elsewhere."""
        self._stopping.set()

    async def serve(self) -> None:
        """Work until `stop`.

        Raises:
            DuplicateExecutorError: another process took over this name.
        """
        await self._begin()
        duties = [
            asyncio.create_task(duty(), name=f"executor-{what}")
            for what, duty in (
                ("heartbeat", self._keep_alive),
                ("follow", self._follow),
                ("start", self._start_waiting),
                ("check", self._check_regularly),
            )
        ]
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            done, _ = await asyncio.wait({*duties, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in duties[1:]:
                task.cancel()
            await self._end_all(report=self._stopping.is_set())
            for task in (*duties, stopping):
                task.cancel()
            await asyncio.gather(*duties, stopping, return_exceptions=True)
            if self._stopping.is_set():
                await self._retire()

    async def _begin(self) -> None:
        """Wait for the server, take over one's own name, and settle what an earlier life left."""
        while True:
            try:
                await self._heartbeats.ensure()
                await self._claims.ensure()
                await self._beat()
                left = await self._claims.of_earlier_lives()
                break
            except Unavailable as error:
                log.info("cell not ready", error=str(error) or type(error).__name__)
                await asyncio.sleep(0.2)
        for held in left:
            await self._settle_earlier(held)
        log.info("executor ready", name=self.name, instance=self.instance, earlier=len(left))

    async def _settle_earlier(self, held: Held) -> None:
        outcome = await self.recover(held) if self.recover is not None else None
        log.info("settling earlier claim", job=held.job, attempt=held.attempt, finished=outcome is not None)
        if outcome is not None:
            await self._publish(held.job, finished(outcome, held.uid, held.attempt, self.name), held.report)
        else:
            message = f'Executor "{self.name}" was restarted'
            data = JobStopped(attempt=held.attempt, uid=held.uid, executor=self.name, message=message)
            await self._publish(held.job, data, held.report)
        await self._done(held.key)

    async def _end_all(self, *, report: bool) -> None:
        for attempt in self._attempts.values():
            self._end(attempt, "stop" if report else "lost")
        tasks = [a.task for a in self._attempts.values() if a.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    async def _retire(self) -> None:
        with contextlib.suppress(*Unavailable):
            await self._heartbeats.remove(self._beat_key)

    # heartbeat

    @property
    def _beat_key(self) -> str:
        return f"agent.{key_token(self.name)}"

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(self.settings.heartbeat_s)
            try:
                await self._beat()
            except Unavailable as error:
                log.info("heartbeat not taken", error=str(error) or type(error).__name__)
                with contextlib.suppress(*Unavailable):
                    await self._heartbeats.ensure()
                    self._beat_revision = None
                continue
            silent, self._beat_at = time.monotonic() - self._beat_at, time.monotonic()
            if silent > self.settings.ttl_s:
                # Others may have thought this process dead and gone on without it.
                log.warning("was away", seconds=round(silent, 1))
                await self._check()

    async def _beat(self) -> None:
        value = Heartbeat(
            name=self.name,
            instance=self.instance,
            host=socket.gethostname(),
            pid=os.getpid(),
            flavors=tuple(self.settings.flavors),
            capacity=self.settings.capacity,
            jobs=len(self._attempts),
        )
        payload = msgspec.json.encode(value)
        ttl_s = self.settings.ttl_s
        try:
            self._beat_revision = await self._heartbeats.put(
                self._beat_key, payload, revision=self._beat_revision, ttl_s=ttl_s
            )
        except StaleSequenceError:
            found = await self._heartbeats.get(self._beat_key)
            if found is not None:
                other = msgspec.json.decode(found.value, type=Heartbeat)
                if other.instance != self.instance:
                    raise DuplicateExecutorError(self.name, other.instance) from None
            self._beat_revision = await self._heartbeats.put(self._beat_key, payload, ttl_s=ttl_s)

    # following

    async def _follow(self) -> None:
        while True:
            try:
                async for batch in self._dispatch.follow():
                    for key, value in batch:
                        self._take(key, value)
            except Unavailable as error:
                # Beginning anew tells all that is wanted now, which is all that matters.
                log.warning("following again", error=str(error) or type(error).__name__)
                await asyncio.sleep(1.0)

    def _take(self, key: str, value: bytes | None) -> None:
        if value is not None:
            try:
                entry = _ENTRIES.decode(value)
            except msgspec.DecodeError as error:
                log.error("unreadable dispatch entry", key=key, error=str(error))
                return
            if entry.state == "Running" or entry.stop:
                self._wanted[entry.job] = entry
            else:
                self._wanted.pop(entry.job, None)
            self._consider(entry.job)
            return
        job = job_of_key(key)
        self._wanted.pop(job, None)
        self._consider(job)

    def _consider(self, job: JobKey) -> None:
        """Do what follows from what is wanted of the job and what runs of it."""
        entry, attempt = self._wanted.get(job), self._attempts.get(job)
        self._waiting.pop(job, None)
        foreign = self._foreign.get(job)
        if foreign is not None and (entry is None or not _same(entry, foreign)):
            del self._foreign[job]
        if attempt is not None:
            if entry is None or not _same(entry, attempt.entry):
                self._end(attempt, "lost")
            elif entry.state == "Suspended":
                self._end(attempt, "stop")
            else:
                self._resize(attempt, entry)
        elif entry is None or self._stopping.is_set():
            return
        elif job in self._foreign:
            self._foreign[job] = entry
        elif entry.state == "Suspended":
            self._start_attempt(entry)
        elif self._serves(entry):
            self._waiting[job] = None
            self._room.set()

    def _resize(self, attempt: _Attempt, entry: DispatchEntry) -> None:
        """Hand on other counts of the same attempt (WS7)."""
        before = attempt.entry
        if entry.seq < before.seq or before.state != "Running":
            return
        attempt.entry = entry
        attempt.pods = _pods(entry)
        self._room.set()
        work = attempt.given
        if work is None or work.entry is entry:
            return
        resized = _counts(work.entry) != _counts(entry)
        work.entry = entry
        if resized and work.on_resize is not None:
            work.on_resize(entry)

    def _serves(self, entry: DispatchEntry) -> bool:
        flavors = self.settings.flavors
        return not flavors or all(
            flavor in flavors for pods in entry.pod_sets for flavor in pods.flavors.values()
        )

    # starting

    async def _start_waiting(self) -> None:
        """Take work that waits, as long as there is room; who is busier hesitates longer."""
        capacity = self.settings.capacity
        while True:
            await self._room.wait()
            self._room.clear()
            for job in list(self._waiting):
                entry = self._wanted.get(job)
                if entry is None or job not in self._waiting:
                    continue
                used = sum(attempt.pods for attempt in self._attempts.values())
                if capacity and _pods(entry) > capacity and not used:
                    log.warning("job needs more than this capacity", job=job, pods=_pods(entry))
                if capacity and used + _pods(entry) > capacity:
                    continue
                if used:
                    await asyncio.sleep(min(0.1, 0.004 * used))
                if job in self._waiting and self._wanted.get(job) is entry:
                    del self._waiting[job]
                    self._start_attempt(entry)

    def _start_attempt(self, entry: DispatchEntry, revision: int = 0) -> None:
        """Claim an attempt (by taking over the claim of *revision*) and do what it asks for."""
        attempt = _Attempt(entry, _pods(entry), revision)
        self._attempts[entry.job] = attempt
        attempt.task = asyncio.create_task(self._live(attempt), name=f"{entry.job}-{entry.attempt}")

    async def _live(self, attempt: _Attempt) -> None:
        """One attempt from the claim to the report."""
        entry = attempt.entry
        try:
            if await self._claim(attempt):
                await self._perform(attempt)
        except NotPublishedError:
            return
        except Exception:
            log.exception("attempt failed in the executor", job=entry.job, attempt=entry.attempt)
        finally:
            del self._attempts[entry.job]
            self._room.set()
            newest = self._wanted.get(entry.job)
            if newest is not None and not _same(newest, entry):
                self._consider(entry.job)

    async def _claim(self, attempt: _Attempt) -> bool:
        entry = attempt.entry
        while not attempt.ending or attempt.ending == "stop":
            try:
                revision = await self._claims.take(entry, attempt.revision)
                if revision is None:
                    self._foreign[entry.job] = entry
                    return False
                attempt.revision = revision
                return True
            except Unavailable as error:
                log.info("claim not answered", job=entry.job, error=str(error) or type(error).__name__)
                await asyncio.sleep(0.2)
        return False

    async def _perform(self, attempt: _Attempt) -> None:
        """Run a claimed attempt, or answer that it has stopped.

        1. Make sure that it is still wanted: what was followed may be behind.
        2. Say in the log who has it.
        3. Run; report how it ended.
        """
        entry = attempt.entry
        await self._refresh(entry.job)
        if entry.state == "Suspended" or attempt.ending:
            await self._finish(attempt, None)
            return
        claim = JobPodsReady(attempt=entry.attempt, uid=entry.uid, executor=self.name, ready=False)
        await self.report(entry, claim, f"claim-{self.instance}")
        attempt.given = Work(attempt.entry, self)
        attempt.work = asyncio.create_task(self._work(attempt.given))
        if attempt.ending:
            attempt.work.cancel()
        await asyncio.wait({attempt.work})
        outcome = None if attempt.work.cancelled() else attempt.work.result()
        await self._finish(attempt, outcome)

    async def _work(self, work: Work) -> Outcome:
        try:
            return await self.run(work)
        except Exception as error:
            log.exception("work failed", job=work.entry.job, attempt=work.entry.attempt)
            return Outcome(success=False, message=f"executor {self.name}: {type(error).__name__}: {error}")

    async def _finish(self, attempt: _Attempt, outcome: Outcome | None) -> None:
        """Report how the attempt ended; nothing if it is not ours any more."""
        entry = attempt.entry
        if outcome is not None and attempt.ending != "lost":
            await self.report(entry, finished(outcome, entry.uid, entry.attempt, self.name), "end")
        elif attempt.ending != "lost":
            message = f'Executor "{self.name}" was shut down' if self._stopping.is_set() else ""
            data = JobStopped(attempt=entry.attempt, uid=entry.uid, executor=self.name, message=message)
            await self.report(entry, data, "end")
        else:
            log.info("attempt lost", job=entry.job, attempt=entry.attempt)
        await self._done(self._claims.key(entry), attempt.revision)

    def _end(self, attempt: _Attempt, how: str) -> None:
        if attempt.ending == "lost" or attempt.ending == how:
            return
        attempt.ending = how
        if attempt.work is not None:
            attempt.work.cancel()

    async def _done(self, key: str, revision: int | None = None) -> None:
        """Mark a claim as done. If that fails it only stays longer than need be."""
        with contextlib.suppress(*Unavailable):
            await self._claims.done(key, revision)

    # reporting

    async def report(self, entry: DispatchEntry, data: JobEvent, what: str) -> None:
        """Publish a report on an attempt, at least once; *what* makes its id."""
        await self._publish(entry.job, data, f"{entry.uid}-{entry.attempt}-{what}")

    async def _publish(self, job: JobKey, data: JobEvent, message_id: str) -> None:
        while True:
            try:
                await self.client.publish(job, data, message_id=message_id)
                return
            except NotPublishedError as error:
                if self._stopping.is_set():
                    # The claim stays, and the next life of this executor reports it; or this one is lost.
                    log.error("report not published", job=job, error=str(error))
                    raise
                log.warning("report not published, trying again", error=str(error))
                await asyncio.sleep(0.5)

    # checking

    async def _check_regularly(self) -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(min(self.settings.check_s, self.settings.takeover_s / 4))
            try:
                await self._take_over()
                if time.monotonic() - last >= self.settings.check_s:
                    last = time.monotonic()
                    await self._check()
            except Unavailable as error:
                log.info("not checked", error=str(error) or type(error).__name__)

    async def _check(self) -> None:
        """Compare every attempt with what is wanted now, and with its claim."""
        for job, attempt in list(self._attempts.items()):
            try:
                await self._refresh(job)
                if attempt.revision and not await self._claims.mine(attempt.entry):
                    self._end(attempt, "lost")
            except Unavailable as error:
                log.info("not checked", job=job, error=str(error) or type(error).__name__)

    async def _refresh(self, job: JobKey) -> None:
        """Read what is wanted of a job, which `_follow` may hear of later."""
        try:
            found = await self._dispatch.get(dispatch_key(job))
        except Unavailable:
            return
        self._take(dispatch_key(job), found.value if found is not None else None)

    async def _take_over(self) -> None:
        """Take over claims of executors that are gone. What the log knows of is requeued before that."""
        if not self._foreign:
            self._missing.clear()
            return
        present = set(await self._heartbeats.keys("agent"))
        now = time.monotonic()
        for job, entry in list(self._foreign.items()):
            claim = await self._claims.of(entry)
            if claim is None:
                # It was done, and has expired; but it is asked for as before.
                del self._foreign[job]
                self._consider(job)
                continue
            held, revision = claim
            if held.state == "Done" or f"agent.{key_token(held.executor)}" in present:
                self._missing.pop(held.executor, None)
                continue
            since = self._missing.setdefault(held.executor, now)
            if now - since >= self.settings.takeover_s and job not in self._attempts:
                log.info("taking over", job=job, attempt=entry.attempt, owner=held.executor)
                if entry.state == "Suspended" or self._serves(entry):
                    del self._foreign[job]
                    self._start_attempt(entry, revision)


def _same(one: DispatchEntry, other: DispatchEntry) -> bool:
    """Tell whether both are about the same attempt of the same job."""
    return one.uid == other.uid and one.attempt == other.attempt


def _counts(entry: DispatchEntry) -> dict[str, int]:
    return {pods.name: pods.count for pods in entry.pod_sets}


def _pods(entry: DispatchEntry) -> int:
    return sum(pods.count for pods in entry.pod_sets)
