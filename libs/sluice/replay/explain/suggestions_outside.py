"""Changes that let a workload be considered at all: stopped queues, missing objects, gates, checks, time."""

from collections.abc import Iterator, Sequence

import msgspec

from sluice.api import kueue
from sluice.api.labels import GATE_CONCURRENT_ADMISSION, PEOPLE
from sluice.api.meta import ObjectMeta
from sluice.core.lifecycle.transitions import pods_ready_deadline
from sluice.core.scheduler.state import SchedulerState
from sluice.core.workload.admission_checks import check_names
from sluice.core.world.activity import blocks_admission
from sluice.core.world.inadmissible import GATED_BY_ANNOTATION, stopped
from sluice.core.world.model import ClusterQueue
from sluice.core.world.variants import siblings
from sluice.core.world.workload import Workload
from sluice.events.base import Event
from sluice.events.checks import AdmissionCheckStatusChanged
from sluice.events.codec import rfc3339
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.slices import WorkloadFinished, WorkloadPodsReady, WorkloadStopped
from sluice.events.variants import PreemptionGateClosed, PreemptionGateOpened

from .executors import Executors
from .sandbox import applied_queue
from .whole_job import has_quota, updated, without_annotation

Change = tuple[str, str, tuple[Event, ...]]
"""What kind of change it is, in words, and as events."""

LOCAL_QUEUE = "localQueue"
SHOWN = 3
QUEUES = 8
"""ClusterQueues that are tried for a LocalQueue that is not there."""


def outside_changes(
    state: SchedulerState,
    workload: Workload,
    cq: ClusterQueue | None,
    executors: Executors | None = None,
    facts: SchedulerState | None = None,
) -> Iterator[Change]:
    """Yield the changes that are worth a trial, beside those of quota and rank.

    *facts*: what is so, where *state* is what would come of other changes.
    """
    yield from _gates(state, workload)
    yield from pods_ready(state, facts=facts)
    if workload.record.misconfigured:
        namespace = workload.record.namespace
        text = f"resources within the limit ranges of namespace {namespace}"
        if has_quota(state, workload):
            # The manifest is fixed: nobody can ask for other resources while its pods run.
            text = f"limit ranges of namespace {namespace} that allow its resources"
        yield "resources", text, updated(state, workload, misconfigured="")
    gates = workload.record.annotations.get(GATED_BY_ANNOTATION)
    if gates:
        text = f"removing its annotation {GATED_BY_ANNOTATION} ({gates})"
        yield "admissionGate", text, without_annotation(state, workload, GATED_BY_ANNOTATION)
    local = state.world.local_queues.get(f"{workload.record.namespace}/{workload.record.queue_name}")
    if local is None:
        yield from _local_queues(state, workload)
    if local is not None and stopped(local.stop_policy):
        resumed = kueue.LocalQueueSpec(cluster_queue=local.cluster_queue)
        event = _applied("LocalQueue", workload.record.queue_name, resumed, workload.record.namespace)
        yield "stopPolicy", f"resuming LocalQueue {local.key}", (event,)
    if cq is None:
        return
    if cq.terminating:
        yield from _made_again(workload, cq)
    if cq.spec.stop_policy not in (None, "", "None"):
        spec = msgspec.structs.replace(cq.spec, stop_policy="None")
        yield "stopPolicy", f"resuming {cq.name}", (applied_queue(cq, spec),)
    missing = sorted({f for group in cq.groups for f in group.flavors if f not in state.world.flavors})
    if missing:
        events = tuple(_applied("ResourceFlavor", name, kueue.ResourceFlavorSpec()) for name in missing)
        yield "flavors", f"a ResourceFlavor {', '.join(missing)}", events
    yield from _checks(state, cq, executors)


def _gates(state: SchedulerState, workload: Workload) -> Iterator[Change]:
    """Gates of the job's own are fixed while it has quota; that of variants is opened for one at a time."""
    record = workload.record
    closed = [g for g in record.preemption_gates if g not in workload.open_gates]
    own = [gate for gate in closed if gate != GATE_CONCURRENT_ADMISSION]
    if not closed or (own and has_quota(state, workload)):
        return
    parent, others = record.parent or workload.key, siblings(state.world, workload)
    opened = [PreemptionGateOpened(cause=0, workload=workload.key, parent=parent, gate=g) for g in closed]
    if own:
        opened += [
            PreemptionGateOpened(cause=0, workload=other.key, parent=parent, gate=gate)
            for other in others
            for gate in own
            if gate not in other.open_gates
        ]
        yield "preemptionGates", f"opening its preemption gate {', '.join(own)}", tuple(opened)
        return
    # Nobody opens it but the variant-controller, for one variant after the other (CA11).
    gate = GATE_CONCURRENT_ADMISSION
    if workload.spent and any(gate in other.open_gates and other.preemptions for other in others):
        return  # who has a promise keeps the last turn until its checks have answered
    turns_over = [
        PreemptionGateClosed(cause=0, workload=other.key, parent=parent, gate=gate, spent=True)
        for other in others
        if gate in other.open_gates
    ]
    text = "nothing but its turn to preempt, which is one variant's at a time"
    yield "turn", text, (*turns_over, *opened)


def pods_ready(
    state: SchedulerState, leaving: Sequence[Workload] = (), facts: SchedulerState | None = None
) -> Iterator[Change]:
    """With waitForPodsReady.blockAdmission, the pods of all that are admitted must run before the next is.

    *leaving*: whom nobody waits for any more when they have gone. *facts*: as for `outside_changes`.
    """
    if not blocks_admission(state.world.config):
        return
    waited_for = [state.world.workloads[key] for key in state.not_ready]
    waited_for = [w for w in waited_for if w not in leaving]
    if not waited_for:
        return
    late = [w for w in waited_for if w.evicted_at is None]
    gone = [w for w in waited_for if w.evicted_at is not None]
    texts = [f"the pods of {_some([_until(facts or state, w) for w in late])} being ready"] if late else []
    texts += (
        [f"{_some([w.key for w in gone])} having stopped (evicted before its pods were ready)"]
        if gone
        else []
    )
    events: list[Event] = [WorkloadPodsReady(cause=0, workload=w.key, ready=True) for w in late]
    events += [WorkloadStopped(cause=0, workload=w.key) for w in gone]
    yield "podsReady", f"{' and '.join(texts)} (waitForPodsReady.blockAdmission)", tuple(events)


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + rest


def _until(facts: SchedulerState, workload: Workload) -> str:
    """Return who it is, and when it is evicted for not being ready: nobody knows of whom is not admitted."""
    known = facts.world.workloads.get(workload.key)
    if known is None or known.admitted_at is None:
        return f"{workload.key} (once it is admitted)"
    until, _ = pods_ready_deadline(facts.world, known)
    return workload.key if until is None else f"{workload.key} (which is evicted at {rfc3339(until)} if not)"


def _local_queues(state: SchedulerState, workload: Workload) -> Iterator[Change]:
    """The LocalQueue that it names, where there is none: before a ClusterQueue of the same name, if any."""
    namespace, name = workload.record.namespace, workload.record.queue_name
    queues = sorted(state.world.cluster_queues, key=lambda queue: (queue != name, queue))
    for queue in queues[:QUEUES]:
        event = _applied("LocalQueue", name, kueue.LocalQueueSpec(cluster_queue=queue), namespace)
        yield LOCAL_QUEUE, f"a LocalQueue {namespace}/{name} for ClusterQueue {queue}", (event,)


def _made_again(workload: Workload, cq: ClusterQueue) -> Iterator[Change]:
    """A queue that is being deleted admits nobody; it can be made again when all in it has stopped."""
    if workload.record.replaces in cq.workloads or workload.record.parent is not None:
        return  # it ends with them
    holders = sorted(w.record.parent or w.key for w in cq.workloads.values())
    ends = [WorkloadFinished(cause=0, workload=key) for key in dict.fromkeys(holders)]
    made = _applied("ClusterQueue", cq.name, cq.spec)
    text = f"ClusterQueue {cq.name} made again, when it has gone"
    yield "clusterQueue", text, (*ends, ObjectDeleted(cause=0, kind="ClusterQueue", name=cq.name), made)


def _checks(state: SchedulerState, cq: ClusterQueue, executors: Executors | None) -> Iterator[Change]:
    """A check that is missing, or whose controller is away, keeps its queue from admitting anybody (AC8)."""
    unknown = [name for name in check_names(cq.spec) if name not in state.world.checks]
    if unknown:
        found: list[Event] = []
        for name in unknown:
            found.append(_applied("AdmissionCheck", name, kueue.AdmissionCheckSpec(controller_name=PEOPLE)))
            found.append(AdmissionCheckStatusChanged(cause=0, check=name, active=True, reason="Active"))
        yield "check", f"an AdmissionCheck {', '.join(unknown)}, which its queue names", tuple(found)
    away = [n for n in check_names(cq.spec) if n in state.world.checks and not state.world.checks[n].active]
    if away:
        who = ", ".join(f"{n} ({state.world.checks[n].controller_name})" for n in away)
        events = tuple(
            AdmissionCheckStatusChanged(cause=0, check=name, active=True, reason="Active") for name in away
        )
        never = executors is not None and not any(
            executors.controller_was_there(state.world.checks[n].controller_name) for n in away
        )
        comes = "appearing" if never else "coming back"
        yield "controller", f"the controller of its admission check {who} {comes}", events


def waits_until(workload: Workload) -> str:
    """Return until when it is held back, "" if it is not."""
    return rfc3339(workload.requeue_at) if workload.held_for and workload.requeue_at else ""


def _applied(kind: str, name: str, spec: object, namespace: str = "") -> ObjectApplied:
    manifest = {"metadata": ObjectMeta(name=name, namespace=namespace), "spec": spec}
    raw = msgspec.Raw(msgspec.json.encode(manifest))
    return ObjectApplied(cause=0, kind=kind, name=name, namespace=namespace, object=raw)
