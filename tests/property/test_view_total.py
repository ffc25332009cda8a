"""Whatever the log says, in whatever order: what people see stays consistent, and no question fails (law 9).

Events are drawn from the whole catalogue, about few objects, so that most make no sense where they stand:
quota for what is over, variants of parents that are gone, releases of what was never reserved.
"""

from random import Random
from typing import Any, get_origin

import msgspec
import pytest

from sluice.core.config.objects import KINDS
from sluice.events import catalogue
from sluice.events.base import Event, JobKey, PodSet, PodSetAssignment, WorkloadKey
from sluice.events.codec import encode_commit
from sluice.events.commit import Step
from sluice.events.config import ObjectApplied
from sluice.events.ids import uid
from sluice.events.slices import JobReference, WorkloadCreated, WorkloadRecord
from sluice.events.variants import VariantCreated
from sluice.log.contract import Entry
from sluice.protocol.query import HistoryRequest
from sluice.readmodel import snapshot
from sluice.readmodel.objects import READ_KINDS, keys, render
from sluice.readmodel.queries import history, waiting_first
from sluice.readmodel.world import World
from tests.support.examples import examples
from tests.support.family_world import cluster_queue, configuration, flavor, local_queue
from tests.support.objects import applied, defaulted
from tests.support.view_invariants import violations

PARENTS = ("default/p", "default/q")
VARIANTS = ("default/v", "default/w")
JOBS = ("default/j", "default/k")
QUEUES = ("a", "b")
FLAVORS = ("res", "od")
NAMES: dict[str, Any] = {
    "workload": (*PARENTS, *VARIANTS),
    "workloads": (*PARENTS, *VARIANTS),
    "victims": (*PARENTS, *VARIANTS),
    "pending_victims": (*PARENTS, *VARIANTS),
    "after": VARIANTS,
    "by": PARENTS,
    "preemptor": (*PARENTS, *VARIANTS),
    "parent": PARENTS,
    "job": JOBS,
    "cluster_queue": QUEUES,
    "local_queue": tuple(f"default/{name}" for name in QUEUES),
    "queue_name": QUEUES,
    "check": ("slow",),
    "checks": ("slow", "fast"),
    "reason": ("Preempted", "Deactivated", "WorkloadSliceReplaced", "Failed", "WaitingForQuota"),
    "state": ("Ready", "Retry", "Pending"),
    "kind": ("ClusterQueue", "LocalQueue", "Configuration"),
    "name": QUEUES,
    "namespace": ("default",),
    "gate": ("kueue.x-k8s.io/concurrent-admission",),
}


class Nonsense:
    """Draws events."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.number = 0

    def event(self) -> Event:
        choice = self.random.choice
        kind = choice(EVENTS)
        if kind is ObjectApplied:
            return self.applied()
        if kind is WorkloadCreated:
            return WorkloadCreated(cause=0, workload=self.record(choice(PARENTS), None))
        if kind is VariantCreated:
            record = self.record(choice(VARIANTS), choice(PARENTS))
            return VariantCreated(cause=0, workload=record, variant=choice(FLAVORS))
        return kind(**{f.name: self.field(f) for f in msgspec.structs.fields(kind) if self.drawn(f)})

    def drawn(self, field: msgspec.structs.FieldInfo) -> bool:
        return field.required or self.random.random() < 0.5

    def field(self, field: msgspec.structs.FieldInfo) -> Any:
        name, kind = field.name, str(field.type)
        if name == "pod_sets":
            return self.assignment() if "PodSetAssignment" in kind else self.pod_sets()
        if name == "pods":
            return {"main": self.random.randint(0, 3)}
        if name in NAMES:
            found = self.random.choice(NAMES[name])
            return (found,) if "Sequence" in kind else found
        if kind == "<class 'bool'>" or "bool" in kind:
            return self.random.random() < 0.5
        if "int" in kind and "dict" not in kind:
            return self.random.randint(0, 5)
        if "dict" in kind or get_origin(field.type) is dict:
            return {}
        return () if "Sequence" in kind or "tuple" in kind else ""

    def applied(self) -> ObjectApplied:
        choice = self.random.choice
        policy = choice(({}, {"migration": {"mode": "TryPreferredFlavors"}}))
        manifest = choice(
            (
                cluster_queue({"res": 1, "od": 2}, policy, name=choice(QUEUES)),
                local_queue(choice(QUEUES), choice(QUEUES)),
                configuration(featureGates={"ConcurrentAdmission": choice((True, False))}),
            )
        )
        return put(manifest)

    def pod_sets(self) -> tuple[PodSet, ...]:
        return (PodSet(name="main", count=self.random.randint(1, 3), requests={"cpu": 1000}),)

    def assignment(self) -> tuple[PodSetAssignment, ...]:
        count = self.random.randint(1, 3)
        flavors = {"cpu": self.random.choice(FLAVORS)}
        return (PodSetAssignment(name="main", count=count, flavors=flavors, usage={"cpu": 1000 * count}),)

    def record(self, key: str, parent: Any) -> WorkloadRecord:
        self.number += 1
        name, number = key.partition("/")[2], self.random.choice(JOBS)
        reference = JobReference(api_version="batch/v1", kind="Job", key=JobKey(number), uid=uid(self.number))
        return WorkloadRecord(
            namespace="default",
            name=name,
            uid=uid(self.number),
            queue_name=self.random.choice(QUEUES),
            created_at=self.number,
            pod_sets=self.pod_sets(),
            job=reference if parent is None else None,
            parent=parent,
            active=self.random.random() < 0.8,
            replaces=self.random.choice((None, None, WorkloadKey(PARENTS[0]))) if parent is None else None,
        )


def put(manifest: dict[str, Any]) -> ObjectApplied:
    return applied(defaulted(manifest))


OFTEN = (
    "Admitted",
    "ObjectApplied",
    "ObjectDeleted",
    "ParentAdmitted",
    "ParentMarked",
    "ParentReleased",
    "QuotaReleased",
    "QuotaReserved",
    "VariantCreated",
    "VariantDeleted",
    "WorkloadCreated",
    "WorkloadDeleted",
    "WorkloadFinished",
    "WorkloadUpdated",
)
EVENTS = [*catalogue.EVENTS.values(), *(catalogue.EVENTS[name] for name in OFTEN * 3)]


def ask_everything(world: World) -> None:
    """Ask for everything that there is."""
    for kind in (*READ_KINDS, *KINDS):
        for key in keys(world, kind):
            render(world, kind, key)
    for kind in ("Job", "Workload"):
        list(waiting_first(world, kind, 0, 5))
        for key in keys(world, kind):
            namespace, _, name = key.partition("/")
            history(world, HistoryRequest(kind=kind, namespace=namespace, name=name))
    world.running()
    for name in QUEUES:
        world.view.reserving(name)
    world.view.unfinished_jobs("default")


@pytest.mark.parametrize("seed", range(examples(40)))
def test_no_history_breaks_what_people_see(seed: int) -> None:
    nonsense, world = Nonsense(seed), World()
    first = [put(flavor(name)) for name in FLAVORS]
    first += [put(cluster_queue({"res": 1, "od": 2}, name=name)) for name in QUEUES]
    first += [put(local_queue(name, name)) for name in QUEUES]
    said: list[Event] = []
    for number in range(200):
        events = (
            first if number == 0 else [nonsense.event() for _ in range(nonsense.random.choice((1, 1, 3)))]
        )
        said = [*said[-4:], *events]
        for event in events:
            step = Step(upto=number, at=number * 1000, events=(event,))
            writer = catalogue.writer_of(type(event))
            payload = encode_commit("main", writer, f"{number}", [step])
            world.fold([Entry(number + 1, writer, number * 1000, payload)])
            assert not (wrong := violations(world.view)), (wrong, said)
        ask_everything(world)
    again = snapshot.load(snapshot.dump(world), world.seq, world.at)
    assert snapshot.dump(again) == snapshot.dump(world)
    ask_everything(again)
    assert not violations(again.view)
