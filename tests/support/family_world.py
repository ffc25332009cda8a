"""A whole cell in memory: its deciders, jobs and executors, over a log that can be decided again.

Every service sees the log at its own pace: `step` lets one of them catch up (or not quite) and decide.
`settle` lets all of them catch up until nobody has anything to say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sluice.api.decode import decode_object
from sluice.api.defaults import default
from sluice.core.decision_loop import settle
from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.invariants import reservation_violations, violations
from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.dispatch import dispatch_entry
from sluice.core.slices.state import Phase
from sluice.core.variants.decider import VariantController
from sluice.core.views.view import View
from sluice.events.base import Event, JobKey, Micros, WorkloadKey
from sluice.events.checks import ChecksReady, ChecksRejected, ChecksRetry
from sluice.events.codec import decode_commit, encode_commit, encode_message
from sluice.events.commit import Step
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.envelope import Message
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.protocol.dispatch import DispatchEntry
from sluice.protocol.subjects import matches_any
from sluice.replay.verify.steps import entries_for, verify
from tests.support.log_check import wrong_with
from tests.support.objects import kueue_object

START: Micros = 1_767_225_600_000_000
SECOND = 1_000_000
QUEUE = "kueue.x-k8s.io/queue-name"


@dataclass
class Service:
    decider: Decider[Any]
    state: Any
    seen: int = 0
    """Position in the log up to which it has folded."""
    upto: int = 0

    def matches(self, entry: Entry) -> bool:
        return matches_any(self.decider.reads, entry.suffix)


@dataclass
class FamilyWorld:
    log: list[Entry] = field(default_factory=list)
    now: Micros = START
    services: dict[str, Service] = field(default_factory=dict)
    ids: int = 0
    history: list[tuple[int, str, Event]] = field(default_factory=list)
    """(seq, writer, event) of all commits, in order."""
    lost_time: dict[JobKey, Micros] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for decider in (SliceAggregator(), VariantController(), Scheduler()):
            self.services[decider.writer] = Service(decider, decider.initial())

    # The log

    def append(self, suffix: str, payload: bytes) -> int:
        self.log.append(Entry(len(self.log) + 1, suffix, self.now, payload))
        return len(self.log)

    def commit(self, writer: str, steps: Sequence[Step]) -> None:
        payload = encode_commit("main", writer, f"{writer}-{len(self.log)}", steps)
        seq = self.append(writer, payload)
        self.history += [(seq, writer, event) for step in steps for event in step.events]

    def apply(self, *manifests: Mapping[str, Any]) -> None:
        """Apply configuration, defaulted as the api service does."""
        events = []
        for manifest in manifests:
            found = default(decode_object(dict(manifest)))
            raw = msgspec.Raw(msgspec.json.encode(found))
            meta = manifest["metadata"]
            events.append(
                ObjectApplied(
                    cause=0,
                    kind=str(manifest["kind"]),
                    name=meta["name"],
                    namespace=meta.get("namespace", ""),
                    object=raw,
                )
            )
        self.commit("config", [Step(upto=len(self.log), at=self.now, events=tuple(events))])

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        """Delete configuration, whoever uses it."""
        event = ObjectDeleted(cause=0, kind=kind, name=name, namespace=namespace)
        self.commit("config", [Step(upto=len(self.log), at=self.now, events=(event,))])

    def message(self, subject: str, event_type: str, data: Any) -> None:
        self.ids += 1
        payload = encode_message(
            message_id=f"m{self.ids}",
            source="test",
            event_type=event_type,
            subject=subject,
            at=self.now,
            data=data,
        )
        self.append(subject, payload)

    # Services

    def step(self, writer: str, entries: int | None = None) -> bool:
        """Let a service fold at most *entries* more entries and decide; return whether it said anything."""
        service = self.services[writer]
        end = len(self.log) if entries is None else min(len(self.log), service.seen + entries)
        for entry in self.log[service.seen : end]:
            if not service.matches(entry):
                continue
            service.upto = entry.seq
            if "." in entry.suffix:
                event = Message(subject=entry.suffix, payload=entry.payload)
                service.decider.apply(service.state, event, entry.seq, entry.at)
            else:
                for step in decode_commit(entry.payload).steps:
                    for one in step.events:
                        service.decider.apply(service.state, one, entry.seq, step.at)
        service.seen = end
        return self._decide(service)

    def _decide(self, service: Service) -> bool:
        def checked(event: Event) -> None:
            if service.decider.writer == "scheduler":
                assert not reservation_violations(service.state, event)
                check_family(service.state, event)

        steps = list(settle(service.decider, service.state, service.upto, self.now, most=500, folded=checked))
        if service.decider.writer == "scheduler":
            assert not violations(service.state), violations(service.state)
        if steps:
            self.commit(service.decider.writer, steps)
        return bool(steps)

    def settle(self, seconds: float = 0) -> None:
        """Let time pass, then let everybody catch up until nobody has anything to say."""
        self.now += int(seconds * SECOND) + 1000
        for _ in range(200):
            self.now += 1000
            said = [writer for writer in self.services if self.step(writer)]
            if not said and all(service.seen == len(self.log) for service in self.services.values()):
                check_gates(self.services["variants"].state)
                return
        raise AssertionError("the cell does not settle")

    def run_until(self, seconds: float) -> None:
        """Let time pass, waking services at their deadlines."""
        end = self.now + int(seconds * SECOND)
        for _ in range(200):
            times = [s.decider.deadline(s.state) for s in self.services.values()]
            moment = min((t for t in times if t is not None and t <= end), default=None)
            if moment is None:
                break
            self.now = max(self.now, moment)
            self.settle()
        self.now = max(self.now, end)
        self.settle()

    # Jobs and executors

    def submit(self, name: str, cpu: int = 1, count: int = 1, **extra: Any) -> None:
        self.message(f"job.default.{name}", "JobSubmitted", job(name, cpu, count, **extra))

    def dispatch(self, name: str) -> DispatchEntry | None:
        return dispatch_entry(self.services["slices"].state, JobKey(f"default/{name}"))

    def report(self, name: str, kind: str, **data: Any) -> None:
        """Let an executor say something: of the attempt that is dispatched now, unless *data* names one."""
        entry = self.dispatch(name)
        attempt = entry.attempt if entry is not None else None
        self.message(f"job.default.{name}", kind, {"attempt": attempt, **data})

    def obey(self) -> bool:
        """Let executors stop what is to stop; return whether anything was."""
        found = False
        for key in list(self.services["slices"].state.jobs):
            name = key.partition("/")[2]
            entry = self.dispatch(name)
            if entry is not None and entry.stop:
                self.report(name, "JobStopped")
                found = True
        return found

    def settle_all(self, seconds: float = 0) -> None:
        """Settle, executors included."""
        self.settle(seconds)
        for _ in range(50):
            if not self.obey():
                return
            self.settle()
        raise AssertionError("jobs stop for ever")

    def flavor_of(self, name: str) -> str:
        """Return the flavor that the job is told to run on, '' if it is told not to."""
        entry = self.dispatch(name)
        if entry is None or entry.state != "Running":
            return ""
        return next(iter(entry.pod_sets[0].flavors.values()))

    def checks_say(self, key: WorkloadKey, state: str, requeue_s: int = 0) -> None:
        """Record a verdict of the admission checks on a workload."""
        event: Event
        if state == "Ready":
            event = ChecksReady(cause=0, workload=key)
        elif state == "Retry":
            at = self.now + requeue_s * SECOND
            event = ChecksRetry(cause=0, workload=key, checks=("slow",), requeue_at=at)
        else:
            event = ChecksRejected(cause=0, workload=key, checks=("slow",))
        self.commit("checks", [Step(upto=len(self.log), at=self.now, events=(event,))])

    # What is known

    def variants(self, name: str) -> dict[str, Any]:
        """Return the job's variants as the variant-controller knows them, by flavor."""
        key = self.services["slices"].state.jobs[JobKey(f"default/{name}")].record.key
        family = self.services["variants"].state.families[key]
        return {variant.name: variant for variant in family.ordered()}

    def active(self, name: str) -> list[str]:
        return [n for n, variant in self.variants(name).items() if variant.active]

    def view(self) -> View:
        """Return what people are shown of the whole log."""
        view = View()
        for seq, _, event in self.history:
            view.apply(event, seq, self.now)
        return view

    def events[E: Event](self, *kinds: type[E]) -> list[E]:
        return [event for _, _, event in self.history if isinstance(event, kinds)]

    def check(self) -> None:
        """What an executor may be running has quota of the scheduler, its own or a variant's, once (G9)."""
        world = self.services["scheduler"].state.world
        for found in self.services["slices"].state.jobs.values():
            if found.phase is Phase.PENDING:
                continue
            own = world.workloads.get(found.record.key)
            family = world.families.get(found.record.key, {}).values()
            holders = [w for w in (own, *family) if w is not None and w.admitted_at is not None]
            assert len(holders) == 1, f"{found.key} runs with the quota of {[w.key for w in holders]}"
            given = [(a.name, a.count, dict(a.flavors)) for a in holders[0].assignment or ()]
            runs = [(p.name, p.count, dict(p.flavors)) for p in found.placement]
            assert given == runs, f"{found.key} runs as {runs}, {holders[0].key} has {given}"

    def verify(self) -> None:
        """Decide the log again: every decider says the same (law 6), and a snapshot goes on as it was."""
        assert not (wrong := wrong_with(self.log, writers=tuple(self.services))), wrong
        for service in self.services.values():
            decider = type(service.decider)()
            verdict = verify(decider, list(entries_for(decider, self.log)))
            assert verdict.divergence is None, str(verdict.divergence)
            data = decider.dump(verdict.fold.state)
            assert decider.dump(decider.load(data)) == data
            if service.seen == len(self.log):
                assert decider.dump(service.state) == data, decider.writer


def check_family(state: Any, event: Event) -> None:
    """At most one admitted variant of a parent, and at most one open gate, at any time."""
    for parent, family in state.world.families.items():
        assert parent in state.world.workloads, f"variants of {parent} outlive it"
        admitted = [w.key for w in family.values() if w.admitted_at is not None]
        assert len(admitted) <= 1, f"{admitted} are admitted after {event}"
        opened = [w.key for w in family.values() if w.open_gates]
        assert len(opened) <= 1, f"the gates of {opened} are open after {event}"
        if state.world.workloads[parent].assignment is not None:
            held = [w.key for w in family.values() if w.assignment is not None]
            assert not held, f"{parent} has quota, and so have {held} after {event}"


def check_gates(state: Any) -> None:
    """CA11: in a settled cell the gate of a variant that runs is closed."""
    for family in state.families.values():
        if state.policy_of(family) is None:
            continue
        for variant in family.variants.values():
            assert not (variant.runs and variant.gate_at is not None), f"{variant.key} runs with an open gate"


def job(name: str, cpu: int = 1, count: int = 1, **extra: Any) -> dict[str, Any]:
    labels = {QUEUE: "main"}
    if "priority_class" in extra:
        labels["kueue.x-k8s.io/priority-class"] = extra.pop("priority_class")
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["true"],
        "resources": {"requests": {"cpu": cpu}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "parallelism": count,
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            **extra,
        },
    }


def flavor(name: str) -> dict[str, Any]:
    return kueue_object("ResourceFlavor", name, {"nodeLabels": {"pool": name}})


def cluster_queue(
    flavors: Mapping[str, int],
    policy: Mapping[str, Any] | None = None,
    *,
    name: str = "main",
    **spec: Any,
) -> dict[str, Any]:
    """Return a queue of cpu, with concurrent admission unless *policy* is empty."""
    groups = [
        {
            "coveredResources": ["cpu"],
            "flavors": [
                {"name": f, "resources": [{"name": "cpu", "nominalQuota": quota}]}
                for f, quota in flavors.items()
            ],
        }
    ]
    body: dict[str, Any] = {"namespaceSelector": {}, "resourceGroups": groups, **spec}
    if policy is None:
        policy = {"migration": {"mode": "TryPreferredFlavors"}}
    if policy:
        body["concurrentAdmissionPolicy"] = dict(policy)
    return kueue_object("ClusterQueue", name, body)


def configuration(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Configuration",
        "metadata": {"name": "default"},
        "spec": spec,
    }


def local_queue(name: str = "main", target: str = "main") -> dict[str, Any]:
    return kueue_object("LocalQueue", name, {"clusterQueue": target}, namespace="default")


def cell(queue: Mapping[str, Any], *more: Mapping[str, Any]) -> FamilyWorld:
    """Return a cell with one queue."""
    world = FamilyWorld()
    names = [f["name"] for g in queue["spec"]["resourceGroups"] for f in g["flavors"]]
    world.apply(*(flavor(f) for f in dict.fromkeys(names)), *more, queue, local_queue())
    world.settle()
    return world


__all__ = ["SECOND", "FamilyWorld", "cell", "cluster_queue", "configuration", "flavor", "job", "local_queue"]
