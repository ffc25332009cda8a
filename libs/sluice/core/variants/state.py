"""State of the variant-controller: parents, their variants, and the policies of queues.

Plain mutable records, changed only by folding events. `State.todo` and the deadlines are derived: a settled
state has nothing to do before its next deadline, so neither is part of a snapshot.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sluice.api import kueue
from sluice.api.features import CONCURRENT_ADMISSION, enabled
from sluice.core.deadlines import Deadlines
from sluice.core.workload.additions import Additions
from sluice.core.world.variant_policy import VariantPolicy, policy_of
from sluice.events.base import Micros, PodSetAssignment, WorkloadKey
from sluice.events.slices import WorkloadRecord


@dataclass(slots=True)
class Variant:
    """A variant and what became of it. Times are microseconds; None means not."""

    record: WorkloadRecord
    name: str
    active: bool = True
    switched_by: int = 0
    """Cause of the last change of `active` by this controller, 0 if there was none."""
    cluster_queue: str = ""
    changes: int = 0
    """How often its pods were changed in place."""
    assignment: Sequence[PodSetAssignment] | None = None
    observed: int = 0
    """How many of these changes its assignment takes into account."""
    admitted_at: Micros | None = None
    evicted: bool = False
    evicted_reason: str = ""
    evicted_message: str = ""
    evaluated: bool = False
    """The scheduler has said something of it since it was (made) active."""
    blocked: bool = False
    """It would preempt, but for its gate."""
    gate_at: Micros | None = None
    """Since when its gate is open."""
    spent: bool = False
    """It has had its turn at preempting."""
    promised: bool = False
    """Its quota is reserved beside that of others, who are to go when its checks allow it (AC6)."""
    backs_off: bool = False
    """It is not queued before a time that a check, or its pods, have set (AC3, SC7)."""
    rejected: bool = False
    """An admission check will never let it run."""
    failed: str = ""
    """Why the scheduler has deactivated it for good, '' if it has not."""
    failed_message: str = ""
    stopped: bool = False
    """VariantStopped was said for its present admission."""
    ready: bool = False
    reclaimed: dict[str, int] = field(default_factory=dict)
    updates: Additions | None = None

    @property
    def key(self) -> WorkloadKey:
        return self.record.key

    @property
    def runs(self) -> bool:
        """Is it the one that the parent runs as, or may be admitted as (CA7)?

        Not after VariantStopped: the scheduler gives its quota up as soon as it hears of it.
        """
        return self.admitted_at is not None and not (self.evicted or self.stopped)

    @property
    def is_settling(self) -> bool:
        """Has it been admitted, and is about to lose its quota?"""
        return self.admitted_at is not None and (self.evicted or self.stopped)


@dataclass(slots=True)
class Family:
    """A workload that may have variants. Most have none, as their queue has no policy."""

    record: WorkloadRecord
    key: WorkloadKey
    since: Micros
    """Create delays count from here: its creation, or the latest reset (CA12)."""
    changes: int = 0
    """How often the pods of the workload were changed in place."""
    switched_by: int = 0
    """Cause of the last change of `active` by its job or its people, 0 if there was none."""
    marked: bool = False
    active: bool = True
    finished: bool = False
    variants: dict[WorkloadKey, Variant] = field(default_factory=dict)
    """The most preferred first; `arrange` keeps it so."""
    holds: bool = False
    """The workload has quota of its own: it was none that has variants when it got it."""
    runs_alone: bool = False
    """It is admitted with that quota, and has not stopped."""
    makes_way: bool = False
    """The scheduler has evicted it, and keeps its quota until its variants are there to ask for that."""
    running: WorkloadKey | None = None
    """The variant that the parent is admitted as."""
    admitted_at: Micros | None = None
    """When the parent was admitted first since the latest reset."""
    leaving: bool = False
    """ParentEvicted was said; the job has not stopped yet."""
    leaving_reason: str = ""
    leaving_message: str = ""
    ending: bool = False
    """The workload is over when its job has stopped: the job was deleted, or gets another workload."""
    stopped: bool = False
    stopped_reason: str = ""
    stopped_message: str = ""
    ready: bool = False
    reclaimed: dict[str, int] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)
    """Flavor or explicit variant -> how many variants of this name were deleted."""
    closed_at: Micros | None = None
    """When a gate was closed last for its time being over."""
    close_gates: bool = False
    """A variant was evicted: no gate stays open (CA11)."""
    cause: int = 0
    """Sequence of the newest input that concerned it, for `Event.cause`."""
    changed_at: Micros = 0
    """When the newest event that concerned it was decided."""

    @property
    def must_stop(self) -> bool:
        """Is it to have no variants yet, as it runs, or may run, with quota of its own (CA4)?"""
        return self.holds and not self.marked and (self.runs_alone or not self.makes_way)

    def ordered(self) -> list[Variant]:
        """Return the variants, the most preferred first."""
        return list(self.variants.values())

    def arrange(self) -> None:
        """Bring the variants into order, after one has come or has got another preference."""
        ranked = sorted(self.variants.values(), key=lambda v: (v.record.preference, v.record.uid))
        self.variants = {variant.key: variant for variant in ranked}

    @property
    def admitted(self) -> Variant | None:
        """The variant that the parent runs as, or may be admitted as; None while it has none."""
        return next((variant for variant in self.variants.values() if variant.runs), None)

    def named(self, name: str) -> Variant | None:
        return next((v for v in self.variants.values() if v.name == name), None)


@dataclass(slots=True)
class State:
    families: dict[WorkloadKey, Family] = field(default_factory=dict)
    of_variant: dict[WorkloadKey, Family] = field(default_factory=dict)
    by_queue: dict[str, dict[WorkloadKey, None]] = field(default_factory=dict)
    """Local queue -> workloads that name it."""
    local_queues: dict[str, str] = field(default_factory=dict)
    cluster_queues: dict[str, kueue.ClusterQueueSpec] = field(default_factory=dict)
    config: kueue.ConfigurationSpec = field(default_factory=kueue.ConfigurationSpec)
    made: int = 0
    """How many variants were ever made: part of their uids."""
    policies: dict[str, VariantPolicy | None] = field(default_factory=dict)
    """Cluster queue -> its policy. Derived."""
    todo: dict[WorkloadKey, None] = field(default_factory=dict)
    deadlines: Deadlines[WorkloadKey] = field(default_factory=Deadlines)
    """When a family is to be looked at although nothing happens."""
    at: Micros = 0
    """Of the event that is folded now."""
    whole: dict[WorkloadKey, VariantPolicy] = field(default_factory=dict)
    """Family -> the policy that its variants are exactly those of. Saves time, changes no decision."""
    spread: dict[WorkloadKey, WorkloadRecord] = field(default_factory=dict)
    """Family -> the record of the parent with which its variants share all they should. As `whole`."""

    def find(self, key: WorkloadKey) -> tuple[Family, Variant] | None:
        """Return a variant and its family, None if the workload is no variant."""
        family = self.of_variant.get(key)
        return None if family is None else (family, family.variants[key])

    def altered(self, family: Family) -> None:
        """Note that the family's variants are not those that they were."""
        self.whole.pop(family.key, None)
        self.spread.pop(family.key, None)

    def policy_of(self, family: Family) -> VariantPolicy | None:
        """Return the policy that the workload is subject to, None if it is an ordinary one."""
        record = family.record
        if record.replaces is not None:
            return None  # a slice of an elastic job, see `world.variants.is_parent`
        name = self.local_queues.get(f"{record.namespace}/{record.queue_name}")
        return None if name is None else self.policies.get(name)

    def is_ordinary(self, family: Family) -> bool:
        """Is its queue known to have no concurrent admission?"""
        record = family.record
        name = self.local_queues.get(f"{record.namespace}/{record.queue_name}")
        return name in self.cluster_queues and self.policies.get(name) is None

    def compile(self, name: str) -> None:
        """Work out the policy of a queue anew."""
        spec = self.cluster_queues.get(name)
        on = enabled(self.config.feature_gates, CONCURRENT_ADMISSION)
        policy = policy_of(spec) if spec is not None and on else None
        self.policies[name] = policy
        if spec is None:
            del self.policies[name]

    def touch(self, family: Family, cause: int) -> None:
        if family.marked or family.variants or self.policy_of(family) is not None:
            self.todo[family.key] = None
            family.changed_at = max(family.changed_at, self.at)
            family.cause = max(family.cause, cause)


def within(assignment: Sequence[PodSetAssignment], flavors: Sequence[str]) -> bool:
    """Does the assignment keep to these flavors?"""
    return all(name in flavors for assigned in assignment for name in assigned.flavors.values())
