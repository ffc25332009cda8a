"""Waiting for jobs by reading the log: what was submitted, refused, started, finished."""

import asyncio
from dataclasses import dataclass
from typing import Literal

import msgspec

from sluice.api.errors import FieldError
from sluice.events import slices
from sluice.events.base import Event, JobKey, WorkloadKey
from sluice.events.codec import decode_commit, decode_message
from sluice.log.contract import Entry
from sluice.log.nats.jetstream import JetStreamLog
from sluice.protocol.subjects import job_suffix

from ._errors import JobDeletedError, JobFailedError, RejectedError, UnknownJobError, WaitTimeoutError

Phase = Literal["Unknown", "Submitted", "Pending", "Running", "Finished", "Deleted", "Rejected"]
_FAR: dict[str, int] = {"Unknown": 0, "Submitted": 0, "Pending": 1, "Running": 2, "Finished": 3}


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """What a job had come to at `seq`. `success` is None until it has finished."""

    job: JobKey
    phase: Phase
    seq: int = 0
    workload: str = ""
    attempt: int = 0
    success: bool | None = None
    reason: str = ""
    message: str = ""


@dataclass(slots=True)
class _Watched:
    key: JobKey
    first: int
    """Sequence of the job's first submission: what the latest one means depends on those before."""
    latest: int
    state: JobState
    answered: bool = False
    """Whether the latest submission has been dealt with; before, the state is not the one asked for."""
    errors: tuple[FieldError, ...] = ()


class Waiter:
    """Follows some jobs until all have come as far as wanted."""

    def __init__(self, target: JetStreamLog, until: str) -> None:
        self.log, self.until = target, until
        self._starts: dict[JobKey, int | None] = {}
        self._watched: dict[JobKey, _Watched] = {}
        self._latest: dict[int, JobKey] = {}
        self._jobs: dict[WorkloadKey, JobKey] = {}

    def add(self, key: JobKey, seq: int | None) -> None:
        """Wait for *key*; *seq* is that of its submission, None for its latest one."""
        self._starts[key] = seq

    async def run(self, timeout_s: float | None) -> list[JobState]:
        """Return the states, in the order of `add`; raises as `AsyncClient.wait`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._find_starts()
                await self._follow()
        except TimeoutError:
            for key in self._starts:
                state = self._state(key)
                if not self._there(state):
                    raise WaitTimeoutError(key, self.until, state.phase, timeout_s or 0) from None
            raise
        return [self._state(key) for key in self._starts]

    def _state(self, key: JobKey) -> JobState:
        watched = self._watched.get(key)
        return watched.state if watched is not None else JobState(job=key, phase="Unknown")

    def _there(self, state: JobState) -> bool:
        return _FAR.get(state.phase, 0) >= _FAR[self.until]

    async def _find_starts(self) -> None:
        for key, seq in self._starts.items():
            namespace, _, name = key.partition("/")
            submissions = [seq] if seq is not None else []
            async for entries in self.log.read(1, [job_suffix(namespace, name)]):
                submissions += [entry.seq for entry in entries if _is_submission(entry)]
            if not submissions:
                raise UnknownJobError(key)
            latest = max(submissions) if seq is None else seq
            state = JobState(job=key, phase="Submitted", seq=latest)
            self._watched[key] = _Watched(key, min(submissions), latest, state)
            self._latest[latest] = key

    async def _follow(self) -> None:
        waiting = set(self._watched)
        arrived = asyncio.Event()
        start = min((watched.first for watched in self._watched.values()), default=1)
        # What was cut off is old: who still waits, waits for what is to come.
        start = max(start, await self.log.first())
        tail = self.log.tail(start, ["slices"], arrived.set)
        try:
            while waiting:
                arrived.clear()
                entries = tail.take()
                for entry in entries:
                    for key in self._take(entry):
                        if self._watched[key].answered and self._there(self._raise_if_over(key)):
                            waiting.discard(key)
                if not entries:
                    await arrived.wait()
        finally:
            await tail.close()

    def _take(self, entry: Entry) -> list[JobKey]:
        """Fold one commit; returns the jobs that changed."""
        try:
            commit = decode_commit(entry.payload, entry.suffix, entry.seq)
        except ValueError:
            # Written by newer code: of no use to this program, which the next commits may still be.
            return []
        changed: dict[JobKey, None] = {}
        for step in commit.steps:
            for event in step.events:
                for key in (self._answered(event), self._fold(event, entry.seq)):
                    if key is not None:
                        changed[key] = None
        return list(changed)

    def _answered(self, event: Event) -> JobKey | None:
        """Notice what answers a latest submission."""
        for seq in event.seqs if isinstance(event, slices.InputsIgnored) else (event.cause,):
            key = self._latest.get(seq)
            if key is not None:
                self._watched[key].answered = True
                return key
        return None

    def _fold(self, event: Event, seq: int) -> JobKey | None:
        match event:
            case slices.WorkloadCreated(workload=record) if record.job is not None:
                watched = self._watched.get(record.job.key)
                if watched is not None:
                    self._jobs[record.key] = watched.key
                    job = watched.key
                    watched.state = JobState(job=job, phase="Pending", seq=seq, workload=record.key)
            case slices.JobResumed() | slices.JobSuspended():
                watched = self._watched.get(event.job)
                if watched is not None:
                    phase = "Running" if isinstance(event, slices.JobResumed) else watched.state.phase
                    self._set(watched, phase=phase, seq=seq, attempt=event.attempt)
            case slices.WorkloadStopped() | slices.WorkloadFinished() | slices.WorkloadDeleted():
                watched = self._watched.get(self._jobs.get(event.workload, JobKey("")))
                if watched is not None and watched.state.workload == event.workload:
                    self._ended(watched, event, seq)
            case slices.Rejected():
                watched = self._watched.get(self._latest.get(event.cause, JobKey("")))
                if watched is not None:
                    watched.errors = tuple(event.errors)
                    self._set(watched, phase="Rejected", seq=seq)
            case _:
                return None
        return None if watched is None else watched.key

    def _ended(
        self,
        watched: _Watched,
        event: slices.WorkloadStopped | slices.WorkloadFinished | slices.WorkloadDeleted,
        seq: int,
    ) -> None:
        match event:
            case slices.WorkloadFinished():
                success = event.reason == "Succeeded"
                self._set(
                    watched,
                    phase="Finished",
                    seq=seq,
                    success=success,
                    reason=event.reason,
                    message=event.message,
                )
            case slices.WorkloadStopped():
                self._set(watched, phase="Pending", seq=seq, reason=event.reason, message=event.message)
            case slices.WorkloadDeleted():
                if watched.state.phase != "Finished":
                    self._set(watched, phase="Deleted", seq=seq)

    def _set(self, watched: _Watched, **changes: object) -> None:
        watched.state = msgspec.structs.replace(watched.state, **changes)

    def _raise_if_over(self, key: JobKey) -> JobState:
        watched = self._watched[key]
        state = watched.state
        if state.phase == "Rejected":
            raise RejectedError(key, watched.latest, watched.errors)
        if state.phase == "Deleted":
            raise JobDeletedError(key)
        if state.phase == "Finished" and state.success is False and self.until == "Finished":
            raise JobFailedError(key, state.message)
        return state


def _is_submission(entry: Entry) -> bool:
    event = decode_message(entry.payload)
    return not isinstance(event, tuple) and event.type == "JobSubmitted"
