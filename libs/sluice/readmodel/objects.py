"""Objects as people get them: Kubernetes objects with status, as plain data."""

from collections.abc import Iterable
from typing import Any

import msgspec

from sluice.api import kueue, sluice_v1
from sluice.core.config.objects import NAMESPACED, manifest_of
from sluice.core.views import (
    JobStatus,
    JobView,
    WorkloadView,
    cluster_queue_status,
    cohort_status,
    job_status,
    local_queue_status,
    position,
    to_manifest,
    why_pending,
)
from sluice.core.views.holding import charged_pods
from sluice.core.views.present.job import Phase, current, is_over, status_fields
from sluice.core.views.present.phase import WorkloadPhase, workload_phase
from sluice.core.views.present.preemptions import to_make_way_for
from sluice.core.views.present.slices import described, is_slice, place, waiting
from sluice.core.views.present.times import timestamp
from sluice.core.views.present.unadmitted import check_states, in_order, told, waiting_for
from sluice.core.views.quota_totals import cohort_names
from sluice.core.views.records import Migration
from sluice.core.workload.admission_checks import READY
from sluice.core.workload.charges import counts, size_text
from sluice.core.world.pending_preemptions import AFTER_CHECK
from sluice.events.base import JobKey, Micros, WorkloadKey
from sluice.log.cell import Presence
from sluice.protocol.executor_kinds import none_runs
from sluice.protocol.query import Object

from .jobs import Submitted, offered_uid
from .world import AGENT, World

READ_KINDS = frozenset({"Job", "Workload", "Variant", "Slice", "Agent"})
NAMESPACED_KINDS = NAMESPACED | {"Job", "Workload", "Variant", "Slice"}


class UnknownKindError(LookupError):
    """No such kind can be asked for."""


def known(world: World, kind: str) -> None:
    """Check that there is such a kind.

    Raises:
        UnknownKindError: there is none.
    """
    if kind not in world.objects.by_kind and kind not in READ_KINDS:
        raise UnknownKindError(kind)


def keys(world: World, kind: str) -> Iterable[str]:
    """Return the keys of all objects of a kind, in order of creation.

    Raises:
        UnknownKindError: no such kind.
    """
    if kind in world.objects.by_kind:
        found: Iterable[str] = world.objects.by_kind[kind]
        # A cohort exists as soon as a queue names it.
        return cohort_names(world.view) if kind == "Cohort" else found
    if kind == "Job":
        return dict.fromkeys([*world.view.jobs, *world.jobs.by_key])
    if kind == "Workload":
        return world.view.workloads
    if kind == "Variant":
        view = world.view
        # A race that is over is its parent's history; each variant can still be had by name.
        racing = (view.workloads[parent] for parent in view.parents)
        return [key for parent in racing if parent.finished_at is None for key in parent.variants]
    if kind == "Slice":
        return world.view.slices
    if kind == "Agent":
        return world.agents()
    raise UnknownKindError(kind)


def render(world: World, kind: str, key: str) -> Object | None:
    """Return an object with its status, None when there is none.

    Raises:
        UnknownKindError: no such kind.
    """
    match kind:
        case "Job":
            return _job(world, JobKey(key))
        case "Workload":
            workload = world.view.workloads.get(WorkloadKey(key))
            return None if workload is None else _workload(world, workload)
        case "Variant":
            workload = world.view.workloads.get(WorkloadKey(key))
            return None if workload is None or not workload.variant else _workload(world, workload)
        case "Slice":
            workload = world.view.workloads.get(WorkloadKey(key))
            return None if workload is None or not is_slice(workload) else _workload(world, workload)
        case "Agent":
            presence = world.cell.presence.get(AGENT + key)
            return None if presence is None else _agent(world, key, presence)
        case _ if kind in world.objects.by_kind:
            return _config(world, kind, key)
    raise UnknownKindError(kind)


def _version(world: World, kind: str, key: str, at_least: int = 0) -> str:
    return str(max(world.changes.version(kind, key), at_least))


# Configuration


def _config(world: World, kind: str, key: str) -> Object | None:
    stored = world.objects.get(kind, key)
    if stored is None:
        return _implicit_cohort(world, key) if kind == "Cohort" and key in cohort_names(world.view) else None
    plain = manifest_of(kind, stored.object)
    plain["metadata"]["resourceVersion"] = _version(world, kind, key, stored.seq)
    status = _config_status(world, kind, key)
    if status is not None:
        plain["status"] = status
    return plain


def _implicit_cohort(world: World, name: str) -> Object:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Cohort",
        "metadata": {"name": name, "resourceVersion": _version(world, "Cohort", name)},
        "spec": {},
        "status": {**cohort_status(world.view, name), "implicit": True},
    }


def _config_status(world: World, kind: str, key: str) -> Any:
    match kind:
        case "ClusterQueue" if key in world.view.cluster_queues:
            return cluster_queue_status(world.view, world.view.cluster_queues[key])
        case "LocalQueue" if key in world.view.local_queues:
            return local_queue_status(world.view, world.view.local_queues[key])
        case "Cohort":
            return cohort_status(world.view, key)
        case "Namespace":
            return {"phase": "Active"}
        case "AdmissionCheck":
            return _check_status(world, key)
    return None


def _check_status(world: World, name: str) -> Any:
    """Return whether the check is active (AC8), and how many workloads wait for it, for how long."""
    said = world.view.checks.get(name)
    condition = {
        "type": "Active",
        "status": "Unknown" if said is None else "True" if said.active else "False",
        "reason": "Pending" if said is None else said.reason,
        "message": "The admission-check service has not said anything yet" if said is None else said.message,
        "lastTransitionTime": timestamp(said.since if said is not None else 0),
    }
    waiting = waiting_for(world.view, name)
    since = [state.at or workload.reserved_at or 0 for workload, state in waiting]
    status: Object = {"conditions": [condition], "pendingWorkloads": len(since)}
    if since:
        status["oldestPendingSince"] = timestamp(min(since))
    return status


# Workloads and jobs


def _workload(world: World, workload: WorkloadView) -> Object:
    plain: Object = msgspec.to_builtins(to_manifest(world.view, workload))
    plain = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", **plain}
    plain["metadata"]["resourceVersion"] = _version(world, "Workload", workload.key)
    for pod_set, written in zip(workload.record.pod_sets, plain["spec"]["podSets"], strict=True):
        # A default, but what people look for first.
        written["count"] = pod_set.count
    phase = workload_phase(workload)
    plain["status"]["phase"] = str(phase)
    for variant, shown in zip(in_order(workload), plain["status"].get("variants", ()), strict=True):
        shown["phase"] = str(workload_phase(variant))
    races = workload.parent and phase is WorkloadPhase.PENDING
    queues = races or workload.key in workload.local_queue.pending
    number = position(world.view, workload) if queues else None
    if number is not None:
        plain["status"]["queuePosition"] = number
    if workload.variant:
        plain["status"]["variant"] = workload.variant
    if is_slice(workload):
        plain["status"]["slice"] = _slice(world, workload)
    controllers = world.objects.by_kind["AdmissionCheck"]
    for check in plain["status"].get("admissionChecks", ()):
        check["attempt"] = workload.check_attempt
        stored = controllers.get(check["name"])
        if stored is not None and isinstance(stored.object, kueue.AdmissionCheck):
            check["controller"] = stored.object.spec.controller_name
        if reason := getattr(workload.checks.get(check["name"]), "reason", ""):
            check["reason"] = reason
    if charged := charged_pods(world.view.config, workload):
        plain["status"]["chargedPods"] = charged
    if promised := _to_be_preempted(world, workload):
        plain["status"]["toBePreempted"] = promised
    for name, moves in (("migrations", True), ("stops", False)):
        if found := [_migration(one) for one in workload.migrations if one.is_move == moves]:
            plain["status"][name] = found
    if workload.admitted_at is not None:
        since = workload.created_at + workload.ran_us
        plain["status"]["waitedSeconds"] = _seconds(since, workload.admitted_at)
    elif workload.ran_us and workload.finished_at is None:
        # It has waited for the rest of its time.
        plain["status"]["ranSeconds"] = _seconds(0, workload.ran_us)
    return plain


def _runs_no(world: World, kind: str) -> str:
    """Return that no executor that is there runs jobs of a kind, "" if one may, or none is there."""
    said = none_runs(kind, {name: who.kinds for name, who in world.agents().items() if who.present})
    return said[:1].upper() + said[1:]


def _to_be_preempted(world: World, workload: WorkloadView) -> list[Object]:
    """Return by whom the workload is to be preempted, and which checks are to allow it first (AC6)."""
    stored = world.objects.by_kind["AdmissionCheck"]

    def holds_back(name: str) -> bool:
        found = stored.get(name)
        check = found.object if found is not None else None
        return not isinstance(check, kueue.AdmissionCheck) or check.spec.preemption_policy == AFTER_CHECK

    found: list[Object] = []
    for preemptor in to_make_way_for(world.view, workload):
        waits = [state.name for state in check_states(preemptor) if state.state != READY]
        found.append({"by": preemptor.key, "afterChecks": [name for name in waits if holds_back(name)]})
    return found


def _slice(world: World, workload: WorkloadView) -> Object:
    """Return where a workload slice stands among its job's (WS9)."""
    reference = workload.record.job
    job = world.view.jobs.get(reference.key) if reference is not None else None
    if job is None:
        return {}
    return {"job": job.key.partition("/")[2], **place(job, workload), "lineage": described(job)}


def _migration(one: Migration) -> Object:
    """Return a stop of a job and how it went on; `lostSeconds` is until its pods were ready again."""
    found: Object = {
        "seq": one.seq,
        "reason": one.reason,
        "from": one.source,
        "evictedAt": timestamp(one.evicted_at),
    }
    if one.admitted_at is not None:
        found |= {"to": one.target, "variant": one.variant, "admittedAt": timestamp(one.admitted_at)}
        found["lostSeconds"] = _seconds(one.evicted_at, one.ready_at or one.admitted_at)
    if one.ready_at is not None:
        found["readyAt"] = timestamp(one.ready_at)
    return found


def _seconds(start: Micros, end: Micros) -> float:
    return round(max(end - start, 0) / 1e6, 3)


def _job(world: World, key: JobKey) -> Object | None:
    view, submitted = world.view.jobs.get(key), world.jobs.get(key)
    if submitted is None:
        return None if view is None else _known_job(world, view)
    new = view is None or (submitted.open and is_over(view))
    offer = submitted.latest if new else submitted.shown
    namespace, _, name = key.partition("/")
    metadata: Object = {"name": name, "namespace": namespace}
    metadata["uid"] = offered_uid(offer) if new else submitted.uid
    metadata["creationTimestamp"] = timestamp(offer.at if new else submitted.created_at)
    for field in ("labels", "annotations"):
        if found := getattr(offer.head.metadata, field):
            metadata[field] = found
    metadata["resourceVersion"] = _version(world, "Job", key)
    return {
        "apiVersion": offer.head.api_version or sluice_v1.API_VERSION,
        "kind": offer.head.kind or "Job",
        "metadata": metadata,
        "status": _unseen(submitted) if new or view is None else _job_status(world, view, submitted),
    }


def _known_job(world: World, view: JobView) -> Object:
    """Return a job whose manifest is not known, only its workload."""
    namespace, _, name = view.key.partition("/")
    reference = view.reference
    return {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": reference.uid,
            "creationTimestamp": timestamp(current(view).record.created_at),
            "resourceVersion": _version(world, "Job", view.key),
        },
        "status": _job_status(world, view, None),
    }


def _unseen(submitted: Submitted) -> Object:
    """Return the status of a job that no workload was made of: not looked at yet, or refused."""
    if submitted.errors:
        message = "; ".join(str(error) for error in submitted.errors)
        return {"phase": "Rejected", "reason": "Invalid", "message": message}
    return {"phase": "Submitted"}


def _job_status(world: World, view: JobView, submitted: Submitted | None) -> Object:
    found: JobStatus = job_status(world.view, view)
    workload = current(view)
    ended = submitted.ended if submitted is not None else None
    status: Object = {
        **status_fields(found, view),
        **(_growth(world, view, found) if is_slice(workload) else {}),
        "grantedPods": sum(assigned.count for assigned in workload.assignment or ()) or None,
        "queuePosition": position(world.view, workload) if found.phase is Phase.QUEUED else None,
        "toBePreempted": _to_be_preempted(world, workload),
        **({"executor": ended.executor} if ended is not None and ended.executor else {}),
        "exitCodes": ended.exit_codes if ended is not None and ended.exit_codes else None,
    }
    if found.phase is Phase.ADMITTED and not status.get("executor") and not status.get("message"):
        status["message"] = _runs_no(world, view.reference.kind)
    if submitted is not None and submitted.errors:
        # An edit that was refused; the job goes on as it was, and for its own reasons.
        seq, event = submitted.refused
        message = "; ".join(str(error) for error in submitted.errors)
        status["refused"] = {"seq": seq, "event": event, "message": message}
    if found.admitted_at is not None:
        status["startTime"] = timestamp(found.started_at or found.admitted_at)
        # Its first slice's, or attempt's, wait counts as much as the latest one's.
        since = submitted.created_at if submitted is not None else found.created_at
        status["waitedSeconds"] = _seconds(since + view.ran_us, found.admitted_at)
    if found.finished_at is not None:
        status["completionTime"] = timestamp(found.finished_at)
        if found.admitted_at is not None:
            # In all of its attempts, with the slices before its last one.
            status["ranSeconds"] = _seconds(found.admitted_at, found.finished_at + view.ran_us)
    return {key: value for key, value in status.items() if value not in ("", [], None)}


def _growth(world: World, view: JobView, found: JobStatus) -> Object:
    """Return the slices of an elastic job, and why the size that it is to have is not its own yet (WS3)."""
    slices, growth = described(view), waiting(view)
    if growth is None:
        return {"slices": slices}
    why = why_pending if growth.assignment is None else told
    reason, message = why(world.view, growth)
    for one in slices:
        if one["name"] == growth.record.name:
            one |= {"reason": reason, "message": message}
    wanted = counts(growth.record.pod_sets)
    return {
        "slices": slices,
        "wantedPods": sum(wanted.values()),
        "reason": found.reason or reason,
        "message": found.message or f"growth to {size_text(wanted)}: {message}",
    }


# Agents


def _agent(world: World, name: str, presence: Presence) -> Object:
    status: Object = {
        "phase": "Ready" if presence.present else "Away" if presence.away else "Lost",
        "since": timestamp(presence.since),
        "message": presence.message,
        "flavors": list(presence.flavors),
        "jobs": world.running()[name],
    }
    if presence.kinds:
        status["kinds"] = list(presence.kinds)
    if presence.on_loss is not None:
        status["onLoss"] = {"policy": presence.on_loss.policy}
        if presence.on_loss.policy == "Requeue":
            status["onLoss"]["afterSeconds"] = presence.on_loss.after_s
    return {
        "apiVersion": sluice_v1.API_VERSION,
        "kind": "Agent",
        "metadata": {"name": name, "resourceVersion": str(presence.seq)},
        "status": status,
    }
