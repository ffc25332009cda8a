"""Workload slices of recorded cases as the slice-aggregator's state, and as the view has them."""

from typing import Any

from sluice.core.slices_state import Job, Phase, State
from sluice.core.status.records import JobView, LocalQueueView, WorkloadView
from sluice.events.base import JobKey, PodSet, PodSetAssignment, WorkloadKey
from sluice.events.ids import uid
from sluice.events.slices import JobReference, WorkloadRecord
from tests.conformance.build_status import conditions_of, micros
from tests.conformance.framework import Json

FOR = "kueue.x-k8s.io/workload-slice-replacement-for"
REFERENCE = JobReference(api_version="batch/v1", kind="Job", key=JobKey("default/test"), uid=uid(1))


def pod_sets(given: list[Json]) -> tuple[PodSet, ...]:
    return tuple(PodSet(name=p["name"], count=p.get("count") or 0, requests={"cpu": 100}) for p in given)


def record_of(manifest: Json) -> WorkloadRecord:
    """Return the record; the fixtures leave out namespaces here and there, ours never do."""
    metadata = manifest["metadata"]
    annotations = {**(metadata.get("annotations") or {}), "kueue.x-k8s.io/elastic-job": "true"}
    replaces = (metadata.get("annotations") or {}).get(FOR)
    return WorkloadRecord(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        uid=metadata.get("uid") or metadata["name"],
        queue_name="queue",
        created_at=micros(metadata.get("creationTimestamp")) or 0,
        pod_sets=pod_sets((manifest.get("spec") or {}).get("podSets") or []),
        job=REFERENCE,
        annotations=annotations,
        replaces=WorkloadKey(replaces) if replaces else None,
    )


def is_true(manifest: Json, kind: str) -> bool:
    return bool(conditions_of(manifest).get(kind, {}).get("status") == "True")


def assignment_of(record: WorkloadRecord) -> tuple[PodSetAssignment, ...]:
    return tuple(
        PodSetAssignment(name=p.name, count=p.count, flavors={"cpu": "f"}, usage={"cpu": 100 * p.count})
        for p in record.pod_sets
    )


def view_of(manifests: list[Json]) -> JobView:
    """Return the job that owns the workloads."""
    job = JobView(REFERENCE.key, REFERENCE)
    for manifest in manifests:
        record = record_of(manifest)
        workload = WorkloadView(record, record.key, LocalQueueView("default/queue"))
        if is_true(manifest, "QuotaReserved"):
            workload.assignment = assignment_of(record)
        workload.evicted = is_true(manifest, "Evicted")
        workload.finished_at = 1 if is_true(manifest, "Finished") else None
        job.workloads[record.key] = workload
    return job


def job_of(manifests: list[Json]) -> tuple[State, Job]:
    """Return a job with these slices, of which the second is to replace the first."""
    state = State()
    first, *rest = [record_of(manifest) for manifest in manifests]
    job = Job(
        key=REFERENCE.key,
        uid=uid(1),
        record=first,
        manifest_seq=1,
        phase=Phase.RUNNING,
        revision=len(rest) + 1,
    )
    job.reserved = is_true(manifests[0], "QuotaReserved")
    job.admitted = job.reserved
    if rest:
        job.pending = rest[0]
    return state, job


def names(workloads: list[WorkloadView]) -> list[str]:
    return [workload.record.name for workload in workloads]


def counts_of(manifest: Any) -> dict[str, int]:
    return {p["name"]: p.get("count") or 0 for p in manifest["spec"]["podSets"]}
