"""A whole cell in memory: its deciders, jobs and executors, over a log that can be decided again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from sluice.core.scheduler.decider import Scheduler
from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.state import Phase
from sluice.core.variants.decider import VariantController
from sluice.core.views.view import View
from sluice.events.base import Event, JobKey, WorkloadKey
from sluice.events.checks import ChecksReady, ChecksRejected, ChecksRetry

from .memory_log import SECOND, World
from .objects import configuration, job_manifest, kueue_object, local_queue, resource_group


@dataclass
class FamilyWorld(World):
    def __post_init__(self) -> None:
        self.serve(SliceAggregator(), VariantController(), Scheduler())

    def settle(self, seconds: float = 0) -> list[Event]:
        found = super().settle(seconds)
        check_gates(self.services["variants"].state)
        return found

    def check_decided(self, state: Any, event: Event) -> None:
        check_family(state, event)

    # Jobs and executors

    def submit(self, name: str, cpu: int = 1, count: int = 1, **extra: Any) -> Self:
        self.message(name, "JobSubmitted", job(name, cpu, count, **extra))
        return self

    def flavor_of(self, name: str) -> str:
        """Return the flavor that the job is told to run on, '' if it is told not to."""
        entry = self.dispatch(name)
        if entry is None or entry.state != "Running":
            return ""
        return next(iter(entry.pod_sets[0].flavors.values()))

    def checks_say(self, key: WorkloadKey, state: str, requeue_s: int = 0) -> Self:
        """Record a verdict of the admission checks on a workload."""
        event: Event
        if state == "Ready":
            event = ChecksReady(cause=0, workload=key)
        elif state == "Retry":
            at = self.now + requeue_s * SECOND
            event = ChecksRetry(cause=0, workload=key, checks=("slow",), requeue_at=at)
        else:
            event = ChecksRejected(cause=0, workload=key, checks=("slow",))
        self.tell("checks", event)
        return self

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
    return job_manifest(name, cpu=cpu, **{"parallelism": count, **extra})


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
    body: dict[str, Any] = {"namespaceSelector": {}, "resourceGroups": [resource_group(flavors)], **spec}
    if policy is None:
        policy = {"migration": {"mode": "TryPreferredFlavors"}}
    if policy:
        body["concurrentAdmissionPolicy"] = dict(policy)
    return kueue_object("ClusterQueue", name, body)


def cell(queue: Mapping[str, Any], *more: Mapping[str, Any]) -> FamilyWorld:
    """Return a cell with one queue."""
    world = FamilyWorld()
    names = [f["name"] for g in queue["spec"]["resourceGroups"] for f in g["flavors"]]
    world.apply(*(flavor(f) for f in dict.fromkeys(names)), *more, queue, local_queue())
    world.settle()
    return world


__all__ = ["SECOND", "FamilyWorld", "cell", "cluster_queue", "configuration", "flavor", "job", "local_queue"]
