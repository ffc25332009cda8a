"""Pending workloads: why each has no quota, and its position in its queue."""

from collections.abc import Iterable, Iterator

from sluice.api import kueue
from sluice.core.variants.activity import why_inactive
from sluice.core.variants.state import Family, Variant
from sluice.core.views.equivalence import class_key, why_barred, yields
from sluice.core.views.records import ClusterQueueView, PendingReason, WorkloadView
from sluice.core.views.state import State
from sluice.core.workload.pending_reasons import (
    ADMISSION_GATED,
    BEHIND_HEAD,
    MISCONFIGURED,
    NO_MATCHING_FLAVOR,
    ON_HOLD,
    OVER,
    PENDING_EVALUATION,
    PENDING_EVALUATION_MESSAGE,
    SUSPENDED,
)
from sluice.core.workload.reasons import (
    DEACTIVATED,
    VARIANT_DEACTIVATED,
    deactivation_message,
)
from sluice.core.world.activity import may_be_so_still
from sluice.core.world.inadmissible import (
    GATED_BY_ANNOTATION,
    Reason,
    grows_elsewhere,
    reason_of,
    without_other_flavors,
)
from sluice.core.world.queue_order import effective_priority, identity_of, queue_rank
from sluice.core.world.variant_policy import policy_of, restricted
from sluice.core.world.variants import BETTER_NEXT, HELD_BACK, holds_back, no_allowed_flavor, policy_in_force
from sluice.events.base import Micros, WorkloadKey
from sluice.events.slices import WorkloadRecord

from .phase import WorkloadPhase, workload_phase
from .times import timestamp
from .unadmitted import reserving, waits_for_stop, why_unadmitted

_ALWAYS_DERIVED = frozenset({DEACTIVATED, SUSPENDED})
"""Never the scheduler's own verdict, so a recorded one is out of date when it cannot be derived any more."""


def why_pending(view: State, workload: WorkloadView) -> Reason:
    """Return (reason, message) of QuotaReserved=False (G6), for a workload without quota.

    What follows from its own spec and its queues is derived; below that stands what the scheduler said
    of it, or of one that is equal to it.
    """
    if workload.parent and workload.active and reserving(workload):
        # However its queue stands: what has quota keeps it, and goes on.
        return why_unadmitted(view, workload)
    recorded = _recorded(view, workload)
    derived = _derived(workload)
    if derived is None and (why := _why_barred(view, workload)):
        return (PENDING_EVALUATION, why)
    if derived is None and (why := _grows_elsewhere(view, workload)):
        return (MISCONFIGURED, why)
    if derived is None and _backs_off(view, workload):
        return (ON_HOLD, HELD_BACK)
    if workload.parent and derived is None:
        return _family_pending(view, workload)
    if derived is not None and derived[0] == DEACTIVATED and (off := _why_inactive(view, workload)):
        return (DEACTIVATED, off)
    if derived is not None:
        own = workload.pending
        if derived[0] == DEACTIVATED and own is not None and own.reason == DEACTIVATED:
            # It was switched off for that, whatever has happened to its queue since.
            return (own.reason, own.message)
        if recorded is not None and recorded.reason == derived[0]:
            return (recorded.reason, recorded.message)
        return _delayed(view, workload) or derived
    if recorded is None or not _may_be_so(view, recorded.reason):
        return _pending_evaluation(view, workload)
    if recorded.preempts and _is_superseded(view, workload):
        return _pending_evaluation(view, workload)
    queue = workload.local_queue.cluster_queue
    if queue is not None and (over := OVER.get(recorded.message)) and not _preempts(view, queue):
        # Nobody is looked at when that preemption is over, unless something becomes free that could help.
        return (recorded.reason, f"{over} (said at {timestamp(recorded.at)})")
    return (recorded.reason, recorded.message)


def reasons_of(view: State, workloads: Iterable[WorkloadView]) -> Iterator[str]:
    """Yield the reason of `why_pending` of each; *workloads* are of one local queue.

    Most of many are equal to others in all that it looks at: of those it is asked once.
    """
    known: dict[object, str] = {}
    for workload in workloads:
        record = workload.record
        alone = (
            workload.parent
            or workload.pending is not None
            or workload.requeue_at is not None
            or not workload.active
            or record.parent is not None
            or record.replaces is not None
            or record.misconfigured
            or GATED_BY_ANNOTATION in record.annotations
        )
        if alone:
            yield why_pending(view, workload)[0]
            continue
        key = (class_key(view, workload), tuple(record.allowed_flavors))
        found = known.get(key)
        if found is None:
            found = known[key] = why_pending(view, workload)[0]
        yield found


def _may_be_so(view: State, reason: str) -> bool:
    return reason not in _ALWAYS_DERIVED and may_be_so_still(reason, view.config, view.awaits_pods)


def _preempts(view: State, queue: ClusterQueueView) -> bool:
    """Does anybody in the queue wait for those whom it preempts?"""
    return any(
        _derived(workload) is None
        and (said := _recorded(view, workload)) is not None
        and said.preempts
        and not _why_barred(view, workload)
        and not _is_superseded(view, workload)
        for workload in view.preemptors(queue)
    )


def _why_barred(view: State, workload: WorkloadView) -> str:
    """Return for what sibling a variant waits, '' if for none (CA10, CA11)."""
    family = workload.record.parent
    parent = view.workloads.get(family) if family is not None else None
    if parent is None:
        return ""
    if why := why_barred(view, workload) or yields(view, workload):
        return why
    leaves = any(other.admitted_at is not None and other.evicted for other in parent.variants.values())
    return BETTER_NEXT if leaves and _is_preceded(view, workload, parent) else ""


def _grows_elsewhere(view: State, workload: WorkloadView) -> str:
    """Return that a slice's job runs in another cluster queue than its local queue leads to, '' if not."""
    replaces, local = workload.record.replaces, workload.local_queue
    old = view.workloads.get(replaces) if replaces is not None else None
    stays = old is not None and old.assignment is not None and not old.evicted
    runs_in = old.cluster_queue if old is not None and stays else None
    leads_to = local.cluster_queue
    if runs_in is None or leads_to is None:
        return ""
    return grows_elsewhere(runs_in.name, workload.record.queue_name, leads_to.name)


def _backs_off(view: State, workload: WorkloadView) -> bool:
    """Does a variant wait because the pods of a sibling were not ready in time (CA15)?"""
    family = workload.record.parent
    parent = view.workloads.get(family) if family is not None else None
    return parent is not None and holds_back(parent.variants.values(), workload)


def _is_preceded(view: State, variant: WorkloadView, parent: WorkloadView) -> bool:
    """Is there a better sibling that waits for nothing but the job's stop, as the scheduler has it?"""
    return any(
        other.record.preference < variant.record.preference and other.active and waits_for_stop(view, other)
        for other in reserving(parent)
    )


def _is_superseded(view: State, preemptor: WorkloadView) -> bool:
    """Has somebody come before a preemptor in a StrictFIFO queue? Then nothing is kept for it any more.

    Nobody looks at it, nor says so, as long as it is not at the head.
    """
    queue = preemptor.local_queue.cluster_queue
    if queue is None or queue.spec is None or queue.spec.queueing_strategy != "StrictFIFO":
        return False
    mine = _order(view, preemptor)
    return any(
        _order(view, other) < mine and _blocks(view, other)
        for local in queue.local_queues.values()
        for other in map(view.workloads.__getitem__, local.pending)
    )


def _blocks(view: State, workload: WorkloadView) -> bool:
    """Do those behind it in a StrictFIFO queue wait for a workload that has no quota?"""
    if _why_not_queued(workload) is not None:
        return False
    key = workload.record.replaces
    old = view.workloads.get(key) if key is not None else None
    if old is not None and old.finished_at is None:
        queue = workload.local_queue.cluster_queue
        if old.evicted or old.preemptions_pending or not old.holds_quota or old.cluster_queue is not queue:
            return False  # it queues when that one has gone, or has quota of this queue that it keeps
    said = _recorded(view, workload)
    return said is None or not said.aside


def _pending_evaluation(view: State, workload: WorkloadView) -> Reason:
    """It has not been looked at: in a StrictFIFO queue that lasts as long as its head waits (SC2)."""
    queue = workload.local_queue.cluster_queue
    if queue is None or queue.spec is None:
        return (PENDING_EVALUATION, PENDING_EVALUATION_MESSAGE)
    if never := no_allowed_flavor(view.config, queue.spec, queue.name, workload.record):
        return (NO_MATCHING_FLAVOR, never)
    if queue.spec.queueing_strategy != "StrictFIFO":
        return (PENDING_EVALUATION, PENDING_EVALUATION_MESSAGE)
    return (PENDING_EVALUATION, f"{PENDING_EVALUATION_MESSAGE}; {BEHIND_HEAD.format(queue.name)}")


def _family_pending(view: State, parent: WorkloadView) -> Reason:
    """A parent waits for what its variants wait for: the reason of the most preferred one, all messages."""
    reasons = [
        (variant.variant, why_pending(view, variant))
        for variant in sorted(parent.variants.values(), key=lambda v: v.record.preference)
        if variant.active and variant.assignment is None
    ]
    if not reasons:
        queue = parent.local_queue.cluster_queue
        if queue is not None and queue.spec is not None:
            none = no_variant(queue.spec, queue.name, parent.record)
        else:
            none = None
        return none or (PENDING_EVALUATION, PENDING_EVALUATION_MESSAGE)
    texts = (f"{name}: {without_other_flavors(message)}" for name, (_, message) in reasons)
    return (reasons[0][1][0], "; ".join(texts))


def no_variant(spec: kueue.ClusterQueueSpec, name: str, parent: WorkloadRecord) -> Reason | None:
    """Return that the queue *name* has no variant with a flavor that the job itself allows, if so (CA4)."""
    policy, allowed = policy_of(spec), parent.allowed_flavors
    if policy is None or not allowed or restricted(policy, allowed):
        return None
    known = ", ".join(dict.fromkeys(flavor for wanted in policy.wanted for flavor in wanted.flavors))
    message = f"no variant may use any of the flavors that the job allows ({', '.join(allowed)})"
    return (NO_MATCHING_FLAVOR, f"{message}: those of the variants of ClusterQueue {name} are {known}")


def _recorded(view: State, workload: WorkloadView) -> PendingReason | None:
    """Return what the scheduler said last, of the workload or of an equal one in its cluster queue.

    Not what it said before a queue, or the settings of admission, changed. Verdicts of a cluster queue stay
    when a local queue changes: they may have been passed on workloads of another one, and who comes to those
    is not looked at anew (SC2).
    """
    own = workload.pending
    local = workload.local_queue
    queue = local.cluster_queue
    if queue is None:
        return own if own is not None and own.seq >= max(local.changed_seq, view.settings_seq) else None
    shared = queue.verdicts.get(class_key(view, workload)) if queue.verdicts else None
    since = max(queue.changed_seq, view.settings_seq)
    if own is not None and own.seq < max(local.changed_seq, since):
        own = None
    if own is not None and own.preempts:
        return own  # those that were its equals wait for something else
    if shared is not None and shared.seq < since:
        shared = None
    if shared is None or (own is not None and own.seq > shared.seq):
        return own
    return shared


def _derived(workload: WorkloadView) -> Reason | None:
    found = _why_not_queued(workload)
    if workload.record.misconfigured and (found is None or found[0] == ADMISSION_GATED):
        # Whatever opens its gates: its resources are inadmissible.
        return (MISCONFIGURED, workload.record.misconfigured)
    return found


def _why_not_queued(workload: WorkloadView) -> Reason | None:
    if not workload.active:
        return (DEACTIVATED, deactivation_message(workload.inactive_because))
    requeued = workload.conditions.get("Requeued")
    if requeued is not None and not requeued.status and workload.requeue_at is not None:
        return (ON_HOLD, requeued.message)
    local = workload.local_queue
    queue = local.cluster_queue
    return reason_of(
        workload.record.queue_name,
        workload.record.annotations.get(GATED_BY_ANNOTATION, ""),
        local_stop_policy=(local.spec.stop_policy or "None") if local.spec is not None else None,
        cluster_queue=local.spec.cluster_queue if local.spec is not None else "",
        spec=queue.spec if queue is not None else None,
        terminating=queue is not None and queue.terminating,
        queue_active=queue is not None and (queue.active is None or queue.active.active),
    )


def _why_inactive(view: State, variant: WorkloadView) -> str:
    """Return what keeps a variant off now, as `sluice why` has it: it may have been switched off for others.

    '' for what is no variant, was switched off for good, or is about to race.
    """
    parent = view.workloads.get(variant.record.parent) if variant.record.parent is not None else None
    queue = variant.local_queue.cluster_queue
    if parent is None or queue is None or queue.spec is None or "DeactivationTarget" in variant.conditions:
        return ""
    policy = policy_of(queue.spec) if policy_in_force(view.config, queue.spec) is not None else None
    if policy is None:
        return ""
    family = Family(parent.record, parent.key, parent.created_at, active=parent.active)
    for key, each in parent.variants.items():
        admitted_at = each.admitted_at
        family.variants[key] = Variant(
            each.record, each.variant, each.active, admitted_at=admitted_at, evicted=each.evicted
        )
    family.arrange()
    why = why_inactive(family, policy, family.variants[variant.key], view.at)
    if why.startswith("createDelaySeconds") and (later := _delayed(view, variant)):
        return later[1]
    return VARIANT_DEACTIVATED.format(why) if why else ""


def _delayed(view: State, variant: WorkloadView) -> Reason | None:
    """Return what to say of a variant that has not been let into the race yet, None of any other (CA12)."""
    family, queue = variant.record.parent, variant.local_queue.cluster_queue
    if family is None or variant.active or queue is None or queue.spec is None:
        return None
    parent, policy = view.workloads.get(family), queue.spec.concurrent_admission_policy
    if parent is None or not parent.active or parent.assignment is not None or policy is None:
        return None
    for explicit in policy.explicit_variants:
        if explicit.name == variant.variant and explicit.create_delay_seconds:
            delay = explicit.create_delay_seconds
            return (DEACTIVATED, f"Variant Workload is activated after createDelaySeconds: {delay}")
    return None


def positions(view: State, cluster_queue: str) -> dict[WorkloadKey, int]:
    """Return the places of all pending workloads of a cluster queue, from 1, first one first.

    The scheduler's order (SC1): priority, then time of creation or of the eviction that counts, then uid. A
    place is a job's: its variants have it together (CA6), and those that wait for a better flavor while their
    job has quota have none: 0. What is not queued for what it is itself comes last, at 0, too. Kept until the
    queue changes.
    """
    queue = view.cluster_queues.get(cluster_queue)
    if queue is None:
        return {}
    version = (view.settings_seq, sum(local.version for local in queue.local_queues.values()))
    if queue.order is None or queue.order[0] != version:
        pending = [view.workloads[key] for local in queue.local_queues.values() for key in local.pending]
        pending.sort(key=lambda workload: _order(view, workload))
        of_job: dict[WorkloadKey, int] = {}
        places: dict[WorkloadKey, int] = {}
        for workload in pending:
            if _kept_out(workload):
                continue
            job = workload.record.parent or workload.key
            parent = None if job == workload.key else view.workloads.get(job)
            waits = parent is None or workload_phase(parent) is WorkloadPhase.PENDING
            places[workload.key] = of_job.setdefault(job, len(of_job) + 1) if waits else 0
        queue.order = (version, {**places, **{w.key: 0 for w in pending if _kept_out(w)}})
    return queue.order[1]


def _kept_out(workload: WorkloadView) -> bool:
    """Is the workload in no queue because of its gate?"""
    record = workload.record
    return bool(record.annotations) and GATED_BY_ANNOTATION in record.annotations


def position(view: State, workload: WorkloadView) -> int | None:
    """Return the workload's place in its cluster queue, from 1; None when it does not queue."""
    queue = workload.local_queue.cluster_queue
    if queue is None:
        return None
    places = positions(view, queue.name)
    if workload.parent:
        return min((places[key] for key in workload.variants if places.get(key)), default=None)
    return places.get(workload.key) or None


def _order(view: State, workload: WorkloadView) -> tuple[int, Micros, str]:
    record, config = workload.record, view.config
    return queue_rank(workload, effective_priority(record, config), identity_of(record), config)
