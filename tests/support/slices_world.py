"""A slice-aggregator under test: messages and events in, decisions out, the log kept for re-deciding."""

from collections.abc import Sequence
from typing import Any

from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.dispatch import dispatch_entry
from sluice.core.slices.state import Job, State
from sluice.events.base import Event, JobKey, Micros, PodSetAssignment, WorkloadKey
from sluice.events.codec import decode_commit, encode_commit, encode_message
from sluice.events.commit import Step
from sluice.events.envelope import Message
from sluice.events.scheduler import Admitted, Evicted, QuotaReleased, QuotaReserved
from sluice.events.slices import Rejected, WorkloadCreated
from sluice.protocol.dispatch import DispatchEntry

from .memory_log import START
from .objects import CLASS, QUEUE, applied, kueue_object
from .objects import job_manifest as manifest


class World:
    """Folds and decides as the runner does, and checks what must always hold."""

    def __init__(self) -> None:
        self.decider = SliceAggregator()
        self.state: State = self.decider.initial()
        self.seq = 0
        self.at = START
        self.inputs: list[tuple[Event, int, Micros]] = []
        self.steps: list[Step] = []
        self.ids = 0

    def fold(self, event: Event) -> int:
        self.seq += 1
        self.inputs.append((event, self.seq, self.at))
        self.decider.apply(self.state, event, self.seq, self.at)
        return self.seq

    def settle(self) -> list[Event]:
        """Decide until nothing follows; returns all events."""
        events: list[Event] = []
        for _ in range(10_000):
            decided = tuple(self.decider.decide(self.state, self.at))
            if not decided:
                assert not self.decider.decide(self.state, self.at)
                return events
            assert tuple(self.decider.decide(self.state, self.at)) == decided, "deciding has side effects"
            step = Step(upto=self.seq, at=self.at, events=decided)
            self.steps.append(step)
            for event in decided:
                self.decider.apply(self.state, event, self.seq, self.at)
            events += decided
        raise AssertionError("never settles")

    def job(
        self, event_type: str, data: Any, name: str = "a", *, namespace: str = "default", message_id: str = ""
    ) -> list[Event]:
        """A message about a job comes in; returns what is decided."""
        self.receive(f"job.{namespace}.{name}", event_type, data, message_id)
        return self.settle()

    def receive(self, subject: str, event_type: str, data: Any, message_id: str = "") -> None:
        """Fold a message, and decide nothing yet."""
        self.ids += 1
        payload = encode_message(
            message_id=message_id or f"m{self.ids}",
            source="test",
            event_type=event_type,
            subject=subject,
            at=self.at,
            data=data,
        )
        self.fold(Message(subject=subject, payload=payload))

    def message(self, subject: str, payload: bytes) -> list[Event]:
        self.fold(Message(subject=subject, payload=payload))
        return self.settle()

    def presence(self, event_type: str, name: str) -> list[Event]:
        self.receive(f"presence.agent.{name}", event_type, {})
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
        self.fold(applied(manifest | body))
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
        self.fold(QuotaReserved(cause=self.seq, workload=record.key, cluster_queue="cq", pod_sets=assigned))
        return self.settle()

    def admit(self, name: str = "a", **options: Any) -> list[Event]:
        """Reserve quota for the job and admit it."""
        self.reserve(name, **options)
        self.fold(Admitted(cause=self.seq, workload=self.workload(name)))
        return self.settle()

    def evict(self, name: str = "a", reason: str = "Preempted") -> list[Event]:
        self.fold(Evicted(cause=self.seq, workload=self.workload(name), reason=reason, message="why"))
        return self.settle()

    def release(self, name: str = "a") -> list[Event]:
        self.fold(QuotaReleased(cause=self.seq, workload=self.workload(name)))
        return self.settle()

    def dispatch(self, name: str = "a") -> DispatchEntry | None:
        return dispatch_entry(self.state, JobKey(f"default/{name}"))

    def check(self) -> None:
        """Rebuilding from what the log holds gives the same state and the same decisions, byte for byte.

        Whether all of it is decided again, or most is only folded, as a stand-by does before it takes over.
        """
        dumped = self.decider.dump(self.state)
        for every in (1, 3):
            assert self.decider.dump(self.rebuilt(every)) == dumped
        loaded = self.decider.load(dumped)
        assert self.decider.dump(loaded) == dumped

    def rebuilt(self, every: int) -> State:
        """Fold all inputs and steps; each *every*-th step is decided again before, and must be the same."""
        fresh = self.decider.initial()
        inputs = list(self.inputs)
        for number, recorded in enumerate(self.steps, 1):
            while inputs and inputs[0][1] <= recorded.upto:
                self.decider.apply(fresh, *inputs.pop(0))
            # As the log keeps them: lists where the live events have tuples.
            encoded = encode_commit("main", "slices", "x", [recorded])
            step = decode_commit(encoded).steps[0]
            if number % every == 0:
                again = tuple(self.decider.decide(fresh, recorded.at))
                found = Step(upto=step.upto, at=step.at, events=again)
                assert encode_commit("main", "slices", "x", [found]) == encoded
            for event in step.events:
                self.decider.apply(fresh, event, step.upto, step.at)
        for entry in inputs:
            self.decider.apply(fresh, *entry)
        return fresh


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
