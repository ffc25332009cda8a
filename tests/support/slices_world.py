"""A slice-aggregator under test, that folds what comes in at once: messages and events in, decisions out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.state import Job, State
from sluice.events.base import Event, JobKey, PodSetAssignment, WorkloadKey
from sluice.events.codec import decode_commit
from sluice.events.commit import Step
from sluice.events.scheduler import Admitted, Evicted, QuotaReleased, QuotaReserved
from sluice.events.slices import Rejected, WorkloadCreated
from sluice.protocol.dispatch import DispatchEntry

from . import memory_log
from .memory_log import START
from .objects import CLASS, QUEUE, applied, kueue_object
from .objects import job_manifest as manifest


@dataclass
class World(memory_log.Alone):
    def __post_init__(self) -> None:
        self.serve(SliceAggregator())

    @property
    def state(self) -> State:
        found: State = self.service.state
        return found

    @property
    def steps(self) -> list[Step]:
        """Return all that it has decided."""
        own = [entry for entry in self.log if entry.suffix == "slices"]
        return [step for entry in own for step in decode_commit(entry.payload).steps]

    def successor(self) -> "World":
        """Return a world that goes on from here with a snapshot."""
        other = World(log=[*self.log], now=self.now, ids=self.ids)
        other.services["slices"] = memory_log.Service(
            self.service.decider, self.state, self.service.seen, self.service.upto
        )
        other.service.restart()
        return other

    def job(
        self, event_type: str, data: Any, name: str = "a", *, namespace: str = "default", message_id: str = ""
    ) -> list[Event]:
        """A message about a job comes in; returns what is decided."""
        self.message(f"job.{namespace}.{name}", event_type, data, message_id)
        return self.settle()

    def envelope(self, subject: str, payload: bytes) -> list[Event]:
        """A message comes in as it is."""
        self.append(subject, payload)
        return self.settle()

    def agent(self, event_type: str, name: str) -> list[Event]:
        """The presence of an agent changes."""
        self.message(f"presence.agent.{name}", event_type, {})
        return self.settle()

    def submit(self, name: str = "a", message_id: str = "", **fields: Any) -> list[Event]:
        return self.job("JobSubmitted", manifest(name, **fields), name, message_id=message_id)

    def state_of(self, name: str = "a") -> Job:
        return self.state.jobs[JobKey(f"default/{name}")]

    def workload(self, name: str = "a") -> WorkloadKey:
        return self.state.jobs[JobKey(f"default/{name}")].record.key

    def apply_object(self, kind: str, name: str, namespace: str = "", **body: Any) -> list[Event]:
        manifest = kueue_object(kind, name, namespace=namespace)
        del manifest["spec"]
        self.put(applied(manifest | body))
        return self.settle()

    def reserve(self, name: str = "a", flavor: str = "default", count: int | None = None) -> list[Event]:
        record = self.state.jobs[JobKey(f"default/{name}")].record
        assigned = tuple(
            PodSetAssignment(
                name=pods.name,
                count=(n := pods.count if count is None else count),
                flavors=dict.fromkeys(pods.requests, flavor),
                usage={resource: value * n for resource, value in pods.requests.items()},
            )
            for pods in record.pod_sets
        )
        self.put(QuotaReserved(cause=self.seq, workload=record.key, cluster_queue="cq", pod_sets=assigned))
        return self.settle()

    def admit(self, name: str = "a", **options: Any) -> list[Event]:
        """Reserve quota for the job and admit it."""
        self.reserve(name, **options)
        self.put(Admitted(cause=self.seq, workload=self.workload(name)))
        return self.settle()

    def evict(self, name: str = "a", reason: str = "Preempted") -> list[Event]:
        self.put(Evicted(cause=self.seq, workload=self.workload(name), reason=reason, message="why"))
        return self.settle()

    def release(self, name: str = "a") -> list[Event]:
        self.put(QuotaReleased(cause=self.seq, workload=self.workload(name)))
        return self.settle()

    def dispatch(self, name: str = "a") -> DispatchEntry | None:
        return super().dispatch(name)


def names(events: Sequence[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def created(events: Sequence[Event]) -> WorkloadCreated:
    found = [event for event in events if isinstance(event, WorkloadCreated)]
    assert len(found) == 1, names(events)
    return found[0]


def refused(events: Sequence[Event]) -> list[str]:
    """Return the field errors of the one Rejected event, as people read them."""
    assert names(events) == ["Rejected"], events
    assert isinstance(events[0], Rejected)
    return [str(error) for error in events[0].errors]


__all__ = ["CLASS", "QUEUE", "START", "World", "created", "manifest", "names", "refused"]
