"""Workload slices of recorded cases as the slice-aggregator's state, and as the view has them."""

from typing import Any

from sluice.api.labels import ELASTIC_JOB
from sluice.core.decision_loop import settle
from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.state import Job
from sluice.core.views.records import JobView, LocalQueueView, WorkloadView
from sluice.events.base import Event, JobKey, PodSet, PodSetAssignment, WorkloadKey
from sluice.events.codec import encode_message
from sluice.events.envelope import Message
from sluice.events.ids import uid
from sluice.events.scheduler import Admitted, Evicted, QuotaReleased, QuotaReserved
from sluice.events.slices import JobReference, WorkloadCreated, WorkloadRecord
from tests.conformance.build_status import conditions_of, micros
from tests.conformance.framework import Json

FOR = "kueue.x-k8s.io/workload-slice-replacement-for"
REFERENCE = JobReference(
    api_version="sluice.dev/v1alpha1", kind="Job", key=JobKey("default/test"), uid=uid(1)
)


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


class Played:
    """A slice-aggregator that was told of a job's slices, in order, and is asked what becomes of them.

    A manifest that names the slice it replaces is that one's replacement; another one takes the place of
    all before it, as the writer of slices makes them.
    """

    def __init__(self, manifests: list[Json]) -> None:
        self.decider = SliceAggregator()
        self.state = self.decider.initial()
        self.seq = 1
        self.made: list[str] = []
        for manifest in manifests:
            self._make(manifest)
        for manifest in manifests:
            if is_true(manifest, "QuotaReserved"):
                self._reserve(record_of(manifest))
        for manifest in manifests:
            if is_true(manifest, "Evicted"):
                key = record_of(manifest).key
                self._fold(Evicted(cause=self.seq, workload=key, reason="Preempted", message=""))

    @property
    def job(self) -> Job:
        return self.state.jobs[REFERENCE.key]

    def _fold(self, event: Event) -> None:
        self.seq += 1
        self.decider.apply(self.state, event, self.seq, self.seq)

    def _make(self, manifest: Json) -> None:
        record = record_of(manifest)
        self.made.append(record.name)
        self._fold(WorkloadCreated(cause=self.seq, workload=record))

    def _reserve(self, record: WorkloadRecord) -> None:
        assigned = assignment_of(record)
        self._fold(QuotaReserved(cause=1, workload=record.key, cluster_queue="cq", pod_sets=assigned))
        if record.replaces is None:
            # What only waits for its replacement's checks is not admitted.
            self._fold(Admitted(cause=1, workload=record.key))
            self.settle()

    def settle(self) -> list[Event]:
        """Decide until nothing follows; returns all events."""
        steps = settle(self.decider, self.state, self.seq, self.seq)
        return [event for step in steps for event in step.events]

    def _say(self, kind: str, data: Any) -> list[Event]:
        subject = f"job.{REFERENCE.key.replace('/', '.')}"
        payload = encode_message(
            message_id=f"{kind}-{self.seq}",
            source="test",
            event_type=kind,
            subject=subject,
            at=self.seq,
            data=data,
        )
        self._fold(Message(subject=subject, payload=payload))
        return self.settle()

    def scale(self, counts: dict[str, int]) -> list[Event]:
        """Let the job have so many pods."""
        return self._say("JobScaled", {"podSets": counts})

    def submit(self, pod_sets: tuple[PodSet, ...]) -> list[Event]:
        """Submit the job with other pods."""
        groups = [{"name": p.name, "replicas": p.count, "command": ["true"]} for p in pod_sets]
        metadata = {"name": "test", "namespace": "default", "annotations": {ELASTIC_JOB: "true"}}
        spec = {"queueName": "queue", "podSets": groups}
        job = {"apiVersion": "sluice.dev/v1alpha1", "kind": "Job", "metadata": metadata, "spec": spec}
        return self._say("JobSubmitted", job)

    def stop(self) -> list[Event]:
        """Say that the job has stopped, and give its quota back as the scheduler does."""
        events = self._say("JobStopped", {})
        for record in self._live():
            self._fold(QuotaReleased(cause=self.seq, workload=record.key))
        return events + self.settle()

    def _live(self) -> list[WorkloadRecord]:
        job = self.state.jobs.get(REFERENCE.key)
        if job is None:
            return []
        return [job.record, *([job.pending] if job.pending is not None else [])]

    def newest(self) -> WorkloadRecord:
        """Return the slice that stands for the size that is wanted."""
        return self._live()[-1]

    def keys(self) -> list[WorkloadKey]:
        return [record.key for record in self._live()]

    def names(self) -> list[str]:
        """Return the live slices, the older one first."""
        return [record.name for record in self._live()]


def names(workloads: list[WorkloadView]) -> list[str]:
    return [workload.record.name for workload in workloads]


def counts_of(manifest: Any) -> dict[str, int]:
    return {p["name"]: p.get("count") or 0 for p in manifest["spec"]["podSets"]}
