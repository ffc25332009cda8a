"""Cases about one workload -> the history that led to it, folded by the scheduler and by the status view.

The case's manifests say how things stand; `Situation` makes the events that would have led there, so that
the real fold and the real decider are what is tested. What the reference implementation reaches in several
reconciles ours may reach in one step: `Situation.run` keeps what users saw after each event.
"""

from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from sluice.api import kueue
from sluice.core.lifecycle import due
from sluice.core.scheduler.decider import Scheduler
from sluice.core.slices.job_request import resources_of
from sluice.core.timing import MICROS_PER_S
from sluice.core.views import View, WorkloadView, notices, to_manifest
from sluice.core.views.present.history import Notice
from sluice.core.views.records import ActiveState, ShownCondition
from sluice.core.workload.admission_checks import CheckState, max_retry_at
from sluice.core.world.workload import Workload
from sluice.events.base import Event, Micros, PodSet, PodSetAssignment, WorkloadKey
from sluice.events.checks import ChecksReady, ChecksRejected, ChecksRetry
from sluice.events.config import ObjectDeleted
from sluice.events.scheduler import (
    Admitted,
    Evicted,
    PendingReasonChanged,
    QuotaReserved,
    WorkloadDeactivated,
)
from sluice.events.slices import (
    WorkloadCreated,
    WorkloadFinished,
    WorkloadPodsReady,
    WorkloadRecord,
    WorkloadUpdated,
)
from tests.support.objects import applied

from .build import rules_by_namespace
from .framework import Json

SECOND = 1_000_000
EVENTS_OF_THE_REFERENCE = ("Admitted", "AdmissionCheckRejected", "MaximumExecutionTimeExceeded")


def micros(text: str | None) -> Micros | None:
    """Return an RFC 3339 time as microseconds; None stays None."""
    return None if text is None else round(datetime.fromisoformat(text).timestamp() * SECOND)


def seconds(duration: str | None) -> int | None:
    """Return a Go duration (`1h2m3s`) in seconds; None stays None."""
    if duration is None:
        return None
    total, number = 0.0, ""
    for char in duration:
        if char in "hms":
            total += float(number) * {"h": 3600, "m": 60, "s": 1}[char]
            number = ""
        else:
            number += char
    return int(total)


def check_state(manifest: Json) -> CheckState:
    return CheckState(
        manifest["name"],
        manifest["state"],
        micros(manifest.get("lastTransitionTime")),
        manifest.get("message", ""),
        manifest.get("requeueAfterSeconds"),
        manifest.get("retryCount") or 0,
    )


def conditions_of(manifest: Json) -> dict[str, Json]:
    """Return the conditions of a workload manifest by type."""
    return {c["type"]: c for c in (manifest.get("status") or {}).get("conditions") or ()}


def configuration(options: Json) -> kueue.ConfigurationSpec:
    """Return the settings that a case's options stand for."""
    wait = options.get("waitForPodsReady")
    retention = (options.get("workloadRetention") or {}).get("afterFinished")
    settings = kueue.WaitForPodsReady()
    if wait is not None:
        settings = kueue.WaitForPodsReady(
            enable=True,
            timeout_seconds=seconds(wait["timeout"]) or 0,
            recovery_timeout_seconds=seconds(wait.get("recoveryTimeout")),
            requeuing_strategy=kueue.RequeuingStrategy(
                backoff_limit_count=wait.get("requeuingBackoffLimitCount"),
                backoff_base_seconds=wait.get("requeuingBackoffBaseSeconds", 0),
                backoff_max_seconds=seconds(wait.get("requeuingBackoffMaxDuration")) or 0,
            ),
        )
    return kueue.ConfigurationSpec(
        wait_for_pods_ready=settings, retain_finished_jobs_seconds=seconds(retention)
    )


@dataclass
class Seen:
    """What users see at one moment."""

    manifest: Json
    notices: list[Notice]
    said: set[tuple[str, str, str]]
    """Type, reason and message of these and of all notices before."""


@dataclass
class Situation:
    """`seen[0]` is the state before anything was decided, `seen[n]` after the n-th decided event."""

    now: Micros
    scheduler: Scheduler = field(default_factory=Scheduler)
    view: View = field(default_factory=View)
    seen: list[Seen] = field(default_factory=list)
    key: WorkloadKey = field(init=False)
    _seq: int = 0

    def __post_init__(self) -> None:
        self.state = self.scheduler.initial()

    def tell(self, event: Event, at: Micros | None = None) -> None:
        self._seq += 1
        moment = self.now if at is None else at
        self.scheduler.apply(self.state, event, self._seq, moment)
        self.view.apply(event, self._seq, moment)

    @property
    def workload(self) -> WorkloadView:
        return self.view.workloads[self.key]

    @property
    def scheduled(self) -> Workload:
        return self.state.world.workloads[self.key]

    def deadline(self) -> Micros | None:
        return due.deadline(self.state.lifecycle)

    def run(self) -> None:
        """Let the life-cycle decide until it has nothing to say; cycles do not run, as in the cases."""
        self.state.lifecycle = due.rebuild(self.state.world, self.now)
        begin = self._seq
        self._look(begin)
        while events := due.decide(self.state.world, self.state.lifecycle, self.now):
            for event in events:
                self.tell(event)
                self._look(begin)

    def _look(self, begin: int) -> None:
        manifest = msgspec.to_builtins(to_manifest(self.view, self.workload))
        found = notices(self.workload)
        fresh = [n for n in found if n.seq > begin]
        self.seen.append(Seen(manifest, fresh, {(n.type, n.reason, n.message) for n in found}))


def situation_of(case: Json) -> Situation:
    """Return the situation in which the case's reconcile starts; call `run` next."""
    given, options = case["input"], case.get("options") or {}
    now = micros(case["now"])
    assert now is not None
    situation = Situation(now)
    (manifest,) = given["Workload"]
    past = _Past(situation, given, manifest)
    spec = configuration(options)
    situation.tell(applied(kueue.Configuration(kind="Configuration", spec=spec), "Configuration"))
    past.make_queues()
    past.make_workload()
    past.change_queues(options)
    past.answer_checks()
    return situation


class _Past:
    """Makes the events; the workload first gets its quota from queues that run, then they change."""

    def __init__(self, situation: Situation, given: Json, manifest: Json) -> None:
        self.situation = situation
        self.manifest = manifest
        self.status: Json = manifest.get("status") or {}
        self.conditions = conditions_of(manifest)
        self.queue_name: str = manifest["spec"].get("queueName") or ""
        self.namespace: str = manifest["metadata"].get("namespace") or ""
        self.cluster_queues = {q["metadata"]["name"]: q for q in given.get("ClusterQueue") or ()}
        self.local_queues = {q["metadata"]["name"]: q for q in given.get("LocalQueue") or ()}
        self.rules = rules_by_namespace(given)[self.namespace]
        admission = self.status.get("admission") or {}
        self.reserved_in: str = admission.get("clusterQueue", "")

    def true(self, kind: str) -> bool:
        return self.conditions.get(kind, {}).get("status") == "True"

    def at(self, kind: str) -> Micros:
        return micros(self.conditions[kind].get("lastTransitionTime")) or self.situation.now

    # Queues

    def make_queues(self) -> None:
        names = dict.fromkeys(self.cluster_queues)
        if self.reserved_in:
            names.setdefault(self.reserved_in)
        for name in names:
            manifest = self.cluster_queues.get(name) or self._presumed(name)
            self._cluster_queue(manifest, stop_policy="None")
        if self.reserved_in and self.queue_name not in self.local_queues:
            local = {
                "metadata": {"name": self.queue_name, "namespace": self.namespace},
                "spec": {"clusterQueue": self.reserved_in},
            }
            self._local_queue(local, stop_policy="None")
        for local in self.local_queues.values():
            self._local_queue(local, stop_policy="None")

    def _presumed(self, name: str) -> Json:
        """Return a queue that the case does not show, with the checks that its workload has."""
        checks = [{"name": state["name"]} for state in self.status.get("admissionChecks") or ()]
        for check in checks:
            typed = msgspec.convert({"metadata": check}, kueue.AdmissionCheck)
            self.situation.tell(applied(typed, "AdmissionCheck"))
        return {
            "metadata": {"name": name},
            "spec": {"admissionChecksStrategy": {"admissionChecks": checks}},
        }

    def change_queues(self, options: Json) -> None:
        """Bring about what the case is about: a stopped, terminating or missing queue."""
        for name, manifest in self.cluster_queues.items():
            policy = manifest["spec"].get("stopPolicy") or "None"
            if policy != "None" or options.get("shouldDeleteCQ"):
                self._cluster_queue(manifest, stop_policy=policy, deleted=bool(options.get("shouldDeleteCQ")))
            self._activate(name, manifest)
        for local in self.local_queues.values():
            policy = local["spec"].get("stopPolicy") or "None"
            if options.get("shouldDeleteLQ"):
                self._delete("LocalQueue", local["metadata"])
            elif policy != "None":
                self._local_queue(local, stop_policy=policy)
        # Without a queueName the case is not about queues: its workload keeps those that it needs.
        if self.queue_name and self.reserved_in:
            if self.queue_name not in self.local_queues:
                self._delete("LocalQueue", {"name": self.queue_name, "namespace": self.namespace})
            if self.reserved_in not in self.cluster_queues:
                self._delete("ClusterQueue", {"name": self.reserved_in})

    def _activate(self, name: str, manifest: Json) -> None:
        """In the cases a queue is active exactly when its own status says so."""
        found = {c["type"]: c["status"] for c in (manifest.get("status") or {}).get("conditions") or ()}
        active = found.get("Active") == "True"
        queue = self.situation.state.world.cluster_queues.get(name)
        if queue is not None:
            queue.active = active
            self.situation.view.cluster_queue(name).active = ActiveState(active, "", "", 0)

    def _cluster_queue(self, manifest: Json, *, stop_policy: str, deleted: bool = False) -> None:
        metadata = dict(manifest["metadata"])
        metadata.pop("deletionTimestamp", None)
        if deleted:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        spec = {**manifest["spec"], "stopPolicy": stop_policy}
        typed = msgspec.convert({"metadata": metadata, "spec": spec}, kueue.ClusterQueue)
        self.situation.tell(applied(typed, "ClusterQueue"))

    def _local_queue(self, manifest: Json, *, stop_policy: str) -> None:
        metadata = dict(manifest["metadata"])
        metadata.pop("deletionTimestamp", None)
        spec = {**manifest["spec"], "stopPolicy": stop_policy}
        typed = msgspec.convert({"metadata": metadata, "spec": spec}, kueue.LocalQueue)
        self.situation.tell(applied(typed, "LocalQueue"))

    def _delete(self, kind: str, metadata: Json) -> None:
        name, namespace = metadata["name"], metadata.get("namespace", "")
        self.situation.tell(ObjectDeleted(kind=kind, name=name, namespace=namespace, cause=0))

    # The workload

    def make_workload(self) -> None:
        situation = self.situation
        record = self._record()
        situation.key = record.key
        situation.tell(WorkloadCreated(workload=record, cause=0), record.created_at)
        if self.true("QuotaReserved"):
            self._reserve(record)
        elif self.conditions.get("QuotaReserved", {}).get("reason", "Pending") != "Pending":
            # "Pending" is the word of older versions; nothing of ours ever says it.
            condition = self.conditions["QuotaReserved"]
            reason, message = condition["reason"], condition.get("message", "")
            event = PendingReasonChanged(workloads=(record.key,), reason=reason, message=message, cause=0)
            situation.tell(event, self.at("QuotaReserved"))
        self._restore()
        if self.true("Finished"):
            finished = self.conditions["Finished"]
            event_of_end = WorkloadFinished(
                workload=record.key,
                reason=finished.get("reason", ""),
                message=finished.get("message", ""),
                cause=0,
            )
            situation.tell(event_of_end, self.at("Finished"))

    def _record(self) -> WorkloadRecord:
        metadata, spec = self.manifest["metadata"], self.manifest["spec"]
        has_quota = self.true("QuotaReserved")
        resources = resources_of(msgspec.convert({**self.manifest, "status": {}}, kueue.Workload))
        return WorkloadRecord(
            namespace=self.namespace,
            name=metadata["name"],
            uid=metadata.get("uid") or "uid",
            queue_name=self.queue_name,
            created_at=micros(metadata.get("creationTimestamp")) or 0,
            pod_sets=tuple(PodSet(name=p["name"], count=p["count"]) for p in spec.get("podSets") or ()),
            misconfigured="" if has_quota else self.rules.judged(resources).message,
            priority=spec.get("priority") or 0,
            # What holds quota was active when it got it.
            active=spec.get("active") is not False or has_quota,
            maximum_execution_time_s=spec.get("maximumExecutionTimeSeconds"),
            preemption_gates=tuple(gate["name"] for gate in spec.get("preemptionGates") or ()),
            labels=metadata.get("labels") or {},
            annotations=metadata.get("annotations") or {},
        )

    def _reserve(self, record: WorkloadRecord) -> None:
        tell, key = self.situation.tell, record.key
        assigned = tuple(
            PodSetAssignment(
                name=p["name"], count=p.get("count") or 1, flavors=dict(p.get("flavors") or {}), usage={}
            )
            for p in (self.status.get("admission") or {}).get("podSetAssignments") or ()
        )
        event = QuotaReserved(workload=key, cluster_queue=self.reserved_in, pod_sets=assigned, cause=0)
        tell(event, self.at("QuotaReserved"))
        if self.true("Admitted"):
            tell(Admitted(workload=key, cause=0), self.at("Admitted"))
        ready = self.conditions.get("PodsReady", {})
        if ready.get("status") == "True" or ready.get("reason") == "WaitForRecovery":
            tell(WorkloadPodsReady(workload=key, cause=0), self.at("Admitted"))
        if ready.get("reason") == "WaitForRecovery":
            tell(WorkloadPodsReady(workload=key, ready=False, cause=0), self.at("PodsReady"))
        if self.manifest["spec"].get("active") is False:
            target = self.conditions.get("DeactivationTarget")
            if target is not None:
                reason, message = target["reason"], target.get("message", "")
                tell(WorkloadDeactivated(workload=key, reason=reason, message=message, cause=0))
            else:
                tell(WorkloadUpdated(workload=key, active=False, cause=0))
        if self.true("Evicted"):
            evicted = self.conditions["Evicted"]
            reason, message = evicted["reason"], evicted.get("message", "")
            tell(Evicted(workload=key, reason=reason, message=message, cause=0), self.at("Evicted"))

    def _restore(self) -> None:
        """Put in place what earlier attempts left behind, in state and view alike."""
        shown, workload = self.situation.workload, self.situation.scheduled
        for kind, condition in self.conditions.items():
            if kind not in ("QuotaReserved", "Admitted", "Finished", "DeactivationTarget"):
                recorded = ShownCondition(
                    condition["status"] == "True",
                    condition.get("reason", ""),
                    condition.get("message", ""),
                    self.at(kind),
                    condition.get("observedGeneration", 0),
                )
                shown.conditions = {**shown.conditions, kind: recorded}
        requeued = self.conditions.get("Requeued")
        if requeued is not None and requeued["status"] == "False":
            workload.held_for, workload.evicted_message = requeued["reason"], requeued.get("message", "")
        requeue: Json = self.status.get("requeueState") or {}
        shown.requeue_count = workload.requeue_count = requeue.get("count") or 0
        shown.requeue_at = workload.requeue_at = micros(requeue.get("requeueAt"))
        past = self.status.get("accumulatedPastExecutionTimeSeconds") or 0
        shown.past_execution_us = workload.past_execution_us = past * MICROS_PER_S
        states = map(check_state, self.status.get("admissionChecks") or ())
        shown.checks = {state.name: state for state in states}
        stats = (self.status.get("schedulingStats") or {}).get("evictions") or ()
        shown.evictions = {(s["reason"], s.get("underlyingCause", "")): s["count"] for s in stats}

    def answer_checks(self) -> None:
        """Say what the admission-check service makes of the states of the checks."""
        states = [check_state(s) for s in self.status.get("admissionChecks") or ()]
        key = self.situation.key
        rejected = [s for s in states if s.state == "Rejected"]
        retry = [s for s in states if s.state == "Retry"]
        if rejected:
            names, message = [s.name for s in rejected], rejected[-1].message
            self.situation.tell(ChecksRejected(workload=key, checks=names, message=message, cause=0))
        elif retry:
            names, message, until = [s.name for s in retry], retry[-1].message, max_retry_at(retry) or 0
            event = ChecksRetry(workload=key, checks=names, requeue_at=until, message=message, cause=0)
            self.situation.tell(event)
        elif states and all(s.state == "Ready" for s in states) and not self.true("Admitted"):
            self.situation.tell(ChecksReady(workload=key, cause=0))
