"""The dispatch projection as a function of the state: what each job should be doing now."""

from collections.abc import Mapping, Sequence

import msgspec

from sluice.api.core_v1 import Toleration
from sluice.api.kueue import PodSetUpdate, ResourceFlavorSpec
from sluice.core.workload.additions import by_check
from sluice.core.workload.charges import counts
from sluice.events.base import JobKey, PodSetAssignment
from sluice.protocol.dispatch import DispatchEntry, DispatchPodSet

from .state import Job, Phase, State

__all__ = ["dispatch_entry"]

_NO_FLAVOR = ResourceFlavorSpec()


def placement(state: State, job: Job) -> Sequence[DispatchPodSet]:
    """Return where the pods of an admitted job go. Resolved once per attempt, and kept with it."""
    return tuple([_pod_set(state, job, assigned) for assigned in job.assignment])


def _pod_set(state: State, job: Job, assigned: PodSetAssignment) -> DispatchPodSet:
    selector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    # A flavor may serve several resources; its labels count once.
    for name in dict.fromkeys(assigned.flavors.values()):
        flavor = state.flavors.get(name, _NO_FLAVOR)
        selector.update(flavor.node_labels)
        tolerations += flavor.tolerations
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    for update in _updates(job, assigned.name):
        selector.update(update.node_selector)
        tolerations += update.tolerations
        labels.update(update.labels)
        annotations.update(update.annotations)
    return DispatchPodSet(
        name=assigned.name,
        count=assigned.count,
        flavors=assigned.flavors,
        node_selector=selector,
        tolerations=tuple(tolerations),
        labels=labels,
        annotations=annotations,
        ungated=assigned.count,
    )


def cut(placed: Sequence[DispatchPodSet], counts: Mapping[str, int]) -> Sequence[DispatchPodSet]:
    """Return the placement for sets of at most so many pods, as they were given up in place (WS3)."""
    smaller = [pods for pods in placed if counts.get(pods.name, pods.count) < pods.count]
    if not smaller:
        return placed
    return tuple(
        msgspec.structs.replace(pods, count=counts[pods.name], ungated=counts[pods.name])
        if counts.get(pods.name, pods.count) < pods.count
        else pods
        for pods in placed
    )


def _gated(job: Job) -> Sequence[DispatchPodSet]:
    """Return what was dispatched, with how many pods more wait for a slice to be admitted (WS7)."""
    if job.pending is None:
        return job.placement
    wanted = counts(job.pending.pod_sets)
    return tuple(
        msgspec.structs.replace(pods, gated=max(0, wanted.get(pods.name, 0) - pods.count))
        for pods in job.placement
    )


def _updates(job: Job, pod_set: str) -> list[PodSetUpdate]:
    found = by_check(job.updates)
    return [update for check in sorted(found) for update in found[check] if update.name == pod_set]


def dispatch_entry(state: State, key: JobKey) -> DispatchEntry | None:
    """Return what the job should be doing; None when there is nothing to run or to stop."""
    job = state.jobs.get(key)
    if job is None or job.attempt == 0:
        # Most jobs wait before their first start: no entry says so, for nothing.
        return None
    running = job.phase is Phase.RUNNING
    return DispatchEntry(
        job=key,
        uid=job.uid,
        state="Running" if running else "Suspended",
        attempt=job.attempt,
        workload=job.dispatched or job.record.key,
        kind=job.record.job.kind if job.record.job else "",
        stop=job.phase is Phase.STOPPING,
        reason=job.reason,
        message=job.message,
        manifest_seq=job.manifest_seq,
        since=job.since,
        pod_sets=_gated(job) if running else (),
        mapping=job.record.mapping,
    )
