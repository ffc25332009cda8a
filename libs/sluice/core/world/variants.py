"""Variants as the scheduler sees them, beyond ordinary workloads (CA4, CA6, CA10, CA15).

A family is the variants of one parent. At any time at most one of them is admitted; a better one takes over
by evicting the other first.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, Protocol

from sluice.api import kueue
from sluice.api.features import CONCURRENT_ADMISSION, enabled
from sluice.core.quota.tree import FlavorResource
from sluice.core.workload import reasons
from sluice.core.workload.admission_checks import READY, checks_for
from sluice.core.workload.reasons import FLAVOR_MIGRATION, PODS_READY_TIMEOUT
from sluice.events.base import Micros, PodSetAssignment, WorkloadKey
from sluice.events.slices import WorkloadRecord

from .model import ClusterQueue, World
from .preemption_turns import goes_first
from .queue_order import identity_of
from .variant_policy import policy_of, restricted
from .workload import Workload

BETTER_ADMITTED: Final = "A more favorable variant is already admitted"
BELOW_LIMIT: Final = "Target flavor is below LastAcceptableFlavorName"
RETAINED: Final = "Another variant is admitted, and the first admission is retained"
BETTER_NEXT: Final = "A more favorable variant is admitted when the job has stopped"
SAME_FLAVORS: Final = "The flavors that it could have now are those on which the job runs already"
RACE_OVER: Final = "Another variant is admitted, and the ClusterQueue has no concurrent admission any more"

HELD_BACK: Final = "The pods of another variant were not ready in time, and the job is held back"

MAY_PREEMPT: Final = "A more favorable variant may preempt first"

RETAIN_FIRST: Final = "RetainFirstAdmission"


class Standing(Enum):
    """How a variant stands to the sibling that is admitted."""

    FREE = "free"
    """None is."""
    BARRED = "barred"
    """It may not take over."""
    MOVES_NOWHERE = "moves nowhere"
    """It may not, as the job runs on the flavors that it would have already."""
    WAITS = "waits"
    """It may have its place, but the sibling is leaving already."""
    MIGRATES = "migrates"
    """It may evict the sibling and take over."""


def policy_in_force(
    config: kueue.ConfigurationSpec, spec: kueue.ClusterQueueSpec | None
) -> kueue.ConcurrentAdmissionPolicy | None:
    """Return by what policy the jobs of a queue race; None when they do not, or the gate is off (CA1)."""
    policy = spec.concurrent_admission_policy if spec is not None else None
    return policy if policy is not None and enabled(config.feature_gates, CONCURRENT_ADMISSION) else None


def allowed_flavors(config: kueue.ConfigurationSpec, record: WorkloadRecord) -> Sequence[str]:
    """Return the flavors that the workload is restricted to; () if to none (CA4).

    A variant is made for its flavors, so it keeps to them whatever the gate says now: that its family is not
    wanted any more is for the variant-controller to act on. What a job asks for itself counts with the gate.
    """
    allowed = record.allowed_flavors
    if not allowed or (record.parent is None and not enabled(config.feature_gates, CONCURRENT_ADMISSION)):
        return ()
    return allowed


def no_allowed_flavor(
    config: kueue.ConfigurationSpec, spec: kueue.ClusterQueueSpec, name: str, record: WorkloadRecord
) -> str:
    """Return that the queue *name* has no flavor that the workload allows for what it needs; '' if it has.

    That follows from the two alone, so it can be told of who is not looked at: behind the head of a
    StrictFIFO queue that would last as long as the head waits. A variant is made for flavors of its queue.
    """
    allowed = allowed_flavors(config, record) if record.parent is None else ()
    if not allowed:
        return ""
    needed = [res for pods in record.pod_sets if pods.count for res, n in pods.requests.items() if n]
    for group in spec.resource_groups:
        flavors = [quotas.name for quotas in group.flavors]
        covered = group.covered_resources
        if any(res in covered for res in needed) and not any(flavor in allowed for flavor in flavors):
            has = f"those of {', '.join(covered)} in ClusterQueue {name} are {', '.join(flavors)}"
            return f"the job allows other flavors only ({', '.join(allowed)}): {has}"
    return ""


def is_parent(config: kueue.ConfigurationSpec, workload: Workload, cq: ClusterQueue) -> bool:
    """Does a workload of this queue have variants, instead of being queued itself (CA4)?

    A slice that is to replace another, or has, has none: it stands by the other's quota.
    """
    return (
        workload.record.parent is None
        and workload.record.replaces is None
        and policy_in_force(config, cq.spec) is not None
    )


def must_race(world: World, workload: Workload) -> ClusterQueue | None:
    """Return the queue in which a workload with quota of its own should have variants instead (CA4)."""
    record = workload.record
    if record.parent is not None:
        return None
    local = world.local_queues.get(f"{record.namespace}/{record.queue_name}")
    cq = world.cluster_queues.get(local.cluster_queue) if local is not None else None
    if cq is None or cq.spec.concurrent_admission_policy is None:
        return None
    return cq if is_parent(world.config, workload, cq) else None


def awaits_variants(world: World, workload: Workload) -> bool:
    """Does an evicted workload keep its quota until its variants are there to ask for it (CA4)?

    Else whoever stands behind it would have what it gives up, only because its variants come a commit later.
    """
    if workload.held_for != reasons.CONCURRENT_ADMISSION or not workload.active:
        return False
    racing = must_race(world, workload)
    return (
        racing is not None
        and racing.name == workload.cluster_queue
        and workload.key not in world.families
        and (policy := policy_of(racing.spec)) is not None
        and bool(restricted(policy, workload.record.allowed_flavors))
    )


def parent_holds(world: World, workload: Workload) -> bool:
    """Has the variant's parent quota of its own, from before it had variants, to be given back first?"""
    parent = world.workloads.get(workload.record.parent) if workload.record.parent is not None else None
    return parent is not None and parent.assignment is not None


def siblings(world: World, workload: Workload) -> list[Workload]:
    """Return the other variants of the same parent, in the order in which they were made."""
    parent = workload.record.parent
    if parent is None:
        return []
    return [other for other in world.families.get(parent, {}).values() if other is not workload]


def admitted_sibling(world: World, workload: Workload) -> Workload | None:
    """Return the variant that runs, or has not stopped yet, instead of this one."""
    parent = workload.record.parent
    if parent is not None:
        for other in world.families.get(parent, {}).values():
            if other.admitted_at is not None and other.assignment is not None and other is not workload:
                return other
    return None


def holders(world: World, parent: WorkloadKey, cluster_queue: str) -> list[Workload]:
    """Return the variants of *parent* with quota of *cluster_queue*, in the order in which they are charged.

    What they share is charged to the first of them (CA10): to one that runs, or is admitted next; not to one
    that is leaving, as it stays with the other; last to who waits for victims with its quota, as nothing runs
    on a promise (AC6).
    """
    found = [
        variant
        for variant in world.families.get(parent, {}).values()
        if variant.assignment is not None and variant.cluster_queue == cluster_queue
    ]
    if len(found) > 1:
        found.sort(key=_charged_first)
    return found


def _charged_first(variant: Workload) -> tuple[bool, bool, bool, Micros, str]:
    return (
        bool(variant.preemptions),
        variant.evicted_at is not None,
        variant.admitted_at is None,
        variant.reserved_at or 0,
        variant.uid,
    )


def family_usage(world: World, workload: Workload, cluster_queue: str) -> dict[FlavorResource, int]:
    """Return what siblings of a variant are charged for in the queue: it needs that no second time (CA10).

    Without what is promised only, and without those that a trial has taken out.
    """
    usage: dict[FlavorResource, int] = {}
    parent = workload.record.parent
    if parent is None:
        return usage
    for variant in world.families.get(parent, {}).values():
        if (
            variant.assignment is not None
            and variant is not workload
            and variant.cluster_queue == cluster_queue
            and not variant.preemptions
            and variant.key not in world.absent
        ):
            for fr, amount in variant.usage.items():
                usage[fr] = usage.get(fr, 0) + amount
    return usage


def standing(world: World, workload: Workload) -> tuple[Standing, Workload | None, str]:
    """Return how *workload* stands to its admitted sibling, that sibling, and why it is barred."""
    other = admitted_sibling(world, workload) if workload.record.parent is not None else None
    if other is None:
        return Standing.FREE, None, ""
    leaves = None if other.evicted_at is None else other.evicted_reason
    cq = world.cluster_queues.get(workload.cluster_queue)
    spec = cq.spec if cq is not None else None
    why = bars(world.config, spec, workload.record.preference, other.record.preference, leaves=leaves)
    if not why and leaves is not None and _is_preceded(world, workload):
        why = BETTER_NEXT
    if why:
        return Standing.BARRED, other, why
    if leaves is None and workload.assignment is not None and moves_nowhere(other, workload.assignment):
        return Standing.MOVES_NOWHERE, other, SAME_FLAVORS
    return (Standing.MIGRATES if leaves is None else Standing.WAITS), other, ""


def running_sibling(world: World, workload: Workload) -> Workload | None:
    """Return the admitted sibling of a variant, unless it is leaving."""
    other = admitted_sibling(world, workload)
    return other if other is not None and other.evicted_at is None else None


def moves_nowhere(running: Workload, assignment: Sequence[PodSetAssignment]) -> bool:
    """Would a migration leave the job on flavors on which it runs, with no more pods (CA10)?

    What it does not ask for any more is nothing to move for, either.
    """
    has = {pods.name: pods for pods in running.assignment or ()}
    return all(
        pods.name in has
        and pods.flavors.items() <= has[pods.name].flavors.items()
        and pods.count <= has[pods.name].count
        for pods in assignment
    )


def stays_at(record: WorkloadRecord, running: Sequence[PodSetAssignment]) -> tuple[tuple[object, ...], ...]:
    """Return where the job of a variant runs, pods and flavors, if the variant may have that or a part of it.

    Variants of which it is not the same are looked at apart: to move there once more is no move (CA10).
    () if the variant cannot come to have this place: it asks for something that has a flavor there which the
    variant may not use.
    """
    allowed, asks = record.allowed_flavors, {pods.name: pods.requests for pods in record.pod_sets}
    if allowed and any(
        flavor not in allowed and resource in asks.get(pods.name, ())
        for pods in running
        for resource, flavor in pods.flavors.items()
    ):
        return ()
    return tuple((pods.name, pods.count, tuple(sorted(pods.flavors.items()))) for pods in running)


def _is_preceded(world: World, workload: Workload) -> bool:
    """Is there a better sibling that waits for nothing but the stop of the one that leaves (CA10)?

    What the others had reserved meanwhile they would give back then, and nobody else could have had it.
    """
    parent = workload.record.parent
    return parent is not None and any(
        other.record.preference < workload.record.preference
        and other.assignment is not None
        and other.admitted_at is None
        and not other.preemptions
        and other.active
        and has_passed(world, other)
        for other in world.families.get(parent, {}).values()
    )


def has_passed(world: World, workload: Workload) -> bool:
    """Are its checks Ready? A variant that waits for its sibling to go may have none (CA10)."""
    if workload.checks or workload.record.parent is None:
        return workload.checks == READY
    queue = world.cluster_queues.get(workload.cluster_queue)
    return queue is not None and not checks_for(queue.spec, workload.assignment or ())


def bars(
    config: kueue.ConfigurationSpec,
    spec: kueue.ClusterQueueSpec | None,
    preference: int,
    admitted: int,
    *,
    leaves: str | None = None,
) -> str:
    """Return why a variant may not take over from the admitted one, '' if it may (CA9, CA10).

    Both are given by their preference, 0 being the best; `spec` is that of their queue. Where nobody races
    any more, nobody migrates: the variant-controller stops the job, for what has become of its queue.
    *leaves*: why the admitted one was evicted, if it was.
    """
    if leaves is not None:
        # To migrate, it makes room for one that is better still.
        return BETTER_ADMITTED if leaves == FLAVOR_MIGRATION and admitted <= preference else ""
    if admitted <= preference:  # the same: one that is on its way out, as its queue was edited
        return BETTER_ADMITTED
    policy = policy_in_force(config, spec)
    if spec is None or policy is None:
        return RACE_OVER
    if policy.migration.mode == RETAIN_FIRST:
        return RETAINED
    if policy.migration.constraints is None:
        return ""
    worked_out = policy_of(spec)
    limit = worked_out.limit if worked_out is not None else None
    return BELOW_LIMIT if limit is not None and preference > limit else ""


def why_barred(world: World, workload: Workload) -> str:
    """Return why nothing can help the variant but that its sibling goes; '' if that is not so."""
    if workload.record.parent is None:
        return ""
    return standing(world, workload)[2] or yields(world, workload)


def yields(world: World, workload: Workload) -> str:
    """Return why a variant leaves it to a better sibling to get in by preemption first, '' if it does not.

    It does for as long as the sibling waits for its gate, or tries, and has not had its turn (CA11, decision
    0017). Not while it is the variant's own turn: its victims may be leaving for it.
    """
    parent = workload.record.parent
    if parent is not None and not workload.in_turn:
        for other in world.families.get(parent, {}).values():
            if (other.tries or other.blocked_on_gates) and goes_first(other, workload.record.preference):
                return MAY_PREEMPT
    return ""


def is_gated(workload: Workload) -> bool:
    """May the workload not preempt? Then it does not wait for the victims of others either (CA11).

    Else it would wait, be found gated when it comes before those others, be parked, which wakes the tree,
    and wait again: two such workloads kept a scheduler busy for ever.
    """
    gates = workload.record.preemption_gates
    return bool(gates) and any(gate not in workload.open_gates for gate in gates)


def waits_on_for(workload: Workload, victims: Iterable[Workload]) -> bool:
    """Are *victims* none but those who leave already, for a variant whose turn is over (CA11)?"""
    return workload.waits_on and all(victim.evicted_at is not None for victim in victims)


def looked_at_before(world: World, workload: Workload) -> list[WorkloadKey]:
    """Return the better siblings that queue: when it is the variant's turn, theirs has been (CA6, CA11).

    They stand before it in the same queue, which looks at one after the other.
    """
    preference = workload.record.preference
    return [
        other.key
        for other in siblings(world, workload)
        if other.peers is not None and other.record.preference < preference
    ]


def backs_off(world: World, workload: Workload) -> bool:
    """Must the variant wait because the pods of a sibling were not ready in time (CA15)?"""
    parent = workload.record.parent
    return parent is not None and holds_back(world.families.get(parent, {}).values(), workload)


class _Held(Protocol):
    """A variant, as the scheduler or a reader has it, by what keeps it out of its queue."""

    @property
    def held_for(self) -> str: ...
    @property
    def active(self) -> bool: ...
    @property
    def assignment(self) -> Sequence[PodSetAssignment] | None: ...


def holds_back(family: Iterable[_Held], variant: _Held) -> bool:
    """Is one of the family, but the variant itself, to wait as its pods were not ready in time (CA15)?"""
    return any(
        other.held_for == PODS_READY_TIMEOUT and other.active and other.assignment is None
        for other in family
        if other is not variant
    )


def past_execution_us(world: World, workload: Workload) -> Micros:
    """Return for how long the job ran before, on whatever flavor, with quota of its own, too."""
    ran = workload.past_execution_us + sum(other.past_execution_us for other in siblings(world, workload))
    parent = world.workloads.get(workload.record.parent) if workload.record.parent is not None else None
    return ran if parent is None else ran + parent.past_execution_us


def queue_identity(workload: Workload) -> str:
    """Return the `identity_of` a workload, which is kept."""
    if workload.record.parent is None:
        return workload.uid
    if not workload.identity:
        workload.identity = identity_of(workload.record)
    return workload.identity


def migration_message(preemptor: Workload) -> str:
    """Return the message of the Evicted condition of the variant that makes room (CA10)."""
    return (
        f"Evicted to accommodate a workload (UID: {preemptor.uid or 'UNKNOWN'}) "
        "due to migration to more favorable resource flavor"
    )


__all__ = [
    "BETTER_NEXT",
    "HELD_BACK",
    "MAY_PREEMPT",
    "RETAIN_FIRST",
    "SAME_FLAVORS",
    "Standing",
    "admitted_sibling",
    "allowed_flavors",
    "awaits_variants",
    "backs_off",
    "bars",
    "family_usage",
    "has_passed",
    "holds_back",
    "is_gated",
    "is_parent",
    "looked_at_before",
    "migration_message",
    "moves_nowhere",
    "must_race",
    "no_allowed_flavor",
    "parent_holds",
    "past_execution_us",
    "policy_in_force",
    "queue_identity",
    "running_sibling",
    "siblings",
    "standing",
    "stays_at",
    "waits_on_for",
    "why_barred",
    "yields",
]
