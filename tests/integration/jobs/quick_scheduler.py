"""A scheduler for tests of what surrounds it: a real writer on the real log that admits what it is told to.

Everything else about the log is real. Tests of the whole system use the real scheduler.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from sluice.events.base import Event, Micros, PodSetAssignment, WorkloadKey
from sluice.events.scheduler import Admitted, Evicted, QuotaReleased, QuotaReserved
from sluice.events.slices import (
    WorkloadCreated,
    WorkloadDeleted,
    WorkloadFinished,
    WorkloadRecord,
    WorkloadStopped,
)
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.runtime.runner import Runner


@dataclass
class State:
    records: dict[WorkloadKey, WorkloadRecord] = field(default_factory=dict)
    waiting: dict[WorkloadKey, None] = field(default_factory=dict)
    evict: dict[WorkloadKey, str] = field(default_factory=dict)
    release: dict[WorkloadKey, None] = field(default_factory=dict)
    evicted: dict[WorkloadKey, None] = field(default_factory=dict)


class QuickScheduler:
    """Admits workloads at once, in *flavor* (or by `flavor_of`), and again when they have stopped.

    `held` keeps names from being admitted; `evict` takes their quota away.
    """

    writer: ClassVar[str] = "scheduler"
    reads: ClassVar[frozenset[str]] = frozenset({"slices"})
    state_version: ClassVar[int] = 1

    def __init__(self, flavor: str = "default") -> None:
        self.flavor = flavor
        self.flavor_of: dict[str, str] = {}
        self.held: set[str] = set()

    def initial(self) -> State:
        return State()

    def apply(self, state: State, event: Event, seq: int, at: Micros) -> None:  # noqa: ARG002
        match event:
            case WorkloadCreated():
                state.records[event.workload.key] = event.workload
                state.waiting[event.workload.key] = None
            case QuotaReserved():
                state.waiting.pop(event.workload, None)
            case Evicted():
                state.evict.pop(event.workload, None)
                state.evicted[event.workload] = None
            case WorkloadStopped() if event.workload in state.records:
                state.release[event.workload] = None
            case QuotaReleased():
                state.release.pop(event.workload, None)
                state.evicted.pop(event.workload, None)
                state.waiting[event.workload] = None
            case WorkloadDeleted() | WorkloadFinished():
                for mapping in (state.records, state.waiting, state.evict, state.release, state.evicted):
                    mapping.pop(event.workload, None)

    def decide(self, state: State, at: Micros) -> Sequence[Event]:  # noqa: ARG002
        events: list[Event] = []
        for key, reason in state.evict.items():
            if key not in state.evicted:
                events.append(Evicted(cause=0, workload=key, reason=reason, message="asked for by the test"))
        for key in state.release:
            if key not in state.evicted:
                events.append(Evicted(cause=0, workload=key, reason="NodeFailures"))
            events.append(QuotaReleased(cause=0, workload=key))
        for key in state.waiting:
            record = state.records[key]
            job = record.job.key.partition("/")[2] if record.job else ""
            if job in self.held:
                continue
            flavor = self.flavor_of.get(job, self.flavor)
            assigned = tuple(
                PodSetAssignment(
                    name=pods.name,
                    count=pods.count,
                    flavors=dict.fromkeys(pods.requests, flavor),
                    usage={name: value * pods.count for name, value in pods.requests.items()},
                )
                for pods in record.pod_sets
            )
            events.append(QuotaReserved(cause=0, workload=key, cluster_queue="main", pod_sets=assigned))
            events.append(Admitted(cause=0, workload=key))
        return events

    def deadline(self, state: State) -> Micros | None:  # noqa: ARG002
        return None

    def dump(self, state: State) -> bytes:  # noqa: ARG002
        return b""

    def load(self, data: bytes) -> State:  # noqa: ARG002
        return State()


class RunningScheduler:
    """A `QuickScheduler` at work in this process."""

    def __init__(self, url: str) -> None:
        self.decider = QuickScheduler()
        self.log = JetStreamLog(url, "main", name="quick-scheduler")
        self.runner: Runner[State] = Runner(self.decider, self.log)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "RunningScheduler":
        await self.log.open()
        self._task = asyncio.create_task(self.runner.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.runner.stop()
        if self._task is not None:
            await self._task
        await self.log.close()

    def workload(self, job: str) -> WorkloadKey:
        """Return the key of the live workload of a job in the namespace `default`."""
        return next(
            key
            for key, record in self.runner.fold.state.records.items()
            if record.job is not None and record.job.key == f"default/{job}"
        )

    def evict(self, job: str, reason: str = "Preempted", *, hold: bool = False) -> None:
        """Evict a job's workload; *hold*: and do not admit it again."""
        if hold:
            self.decider.held.add(job)
        self.runner.fold.state.evict[self.workload(job)] = reason
        self._poke()

    def unhold(self, job: str) -> None:
        self.decider.held.discard(job)
        self._poke()

    def _poke(self) -> None:
        """Make the runner decide: what the test wants is in no event."""
        self.runner.replica.due = 0
        self.runner._wake.set()
