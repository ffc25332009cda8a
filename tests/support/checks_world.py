"""The admission-check service's decider over a log in memory, its neighbours played by the test.

`tell` lets a neighbour commit events, `say` lets a controller answer, `settle` lets the service catch up and
decide. `check` holds what must be true at any time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sluice.api.decode import decode_object
from sluice.api.defaults import default
from sluice.core.checks.decider import AdmissionChecks
from sluice.core.checks.requests import requests
from sluice.core.checks.state import State
from sluice.core.decision_loop import settle
from sluice.events.base import Event, Micros, PodSet, PodSetAssignment, WorkloadKey
from sluice.events.codec import decode_commit, encode_commit, encode_message
from sluice.events.commit import Step
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.envelope import Message
from sluice.events.scheduler import Admitted, Evicted, QuotaReleased, QuotaReserved
from sluice.events.slices import JobReference, WorkloadCreated, WorkloadFinished, WorkloadRecord
from sluice.log.contract import Entry
from sluice.protocol.checks import CheckRequest
from sluice.protocol.subjects import presence_suffix, verdict_suffix
from sluice.replay.verify.steps import entries_for, verify
from tests.support.objects import kueue_object

START: Micros = 1_767_225_600_000_000
SECOND = 1_000_000


@dataclass
class ChecksWorld:
    now: Micros = START
    log: list[Entry] = field(default_factory=list)
    state: State = field(default_factory=State)
    seen: int = 0
    upto: int = 0
    said: list[Event] = field(default_factory=list)
    """All that the service has decided."""
    ids: int = 0
    decider: AdmissionChecks = field(default_factory=AdmissionChecks)

    # The log

    def append(self, suffix: str, payload: bytes) -> int:
        self.now += 1000
        self.log.append(Entry(len(self.log) + 1, suffix, self.now, payload))
        return len(self.log)

    def tell(self, writer: str, *events: Event) -> int:
        """Commit events of a neighbour in one step."""
        self.now += 1000
        step = Step(upto=len(self.log), at=self.now, events=events)
        return self.append(writer, encode_commit("main", writer, f"{writer}-{len(self.log)}", [step]))

    def message(self, suffix: str, event_type: str, data: Any) -> int:
        self.ids += 1
        payload = encode_message(
            message_id=f"m{self.ids}",
            source="test",
            event_type=event_type,
            subject=suffix,
            at=self.now,
            data=data,
        )
        return self.append(suffix, payload)

    # Neighbours

    def apply(self, *manifests: Mapping[str, Any]) -> None:
        for manifest in manifests:
            raw = msgspec.Raw(msgspec.json.encode(default(decode_object(dict(manifest)))))
            kind, name = str(manifest["kind"]), str(manifest["metadata"]["name"])
            self.tell("config", ObjectApplied(cause=0, kind=kind, name=name, object=raw))

    def delete(self, kind: str, name: str) -> None:
        self.tell("config", ObjectDeleted(cause=0, kind=kind, name=name))

    def presence(self, controller: str, *, there: bool = True) -> None:
        self.message(presence_suffix("controller", controller), "Seen" if there else "Lost", {})

    def create(self, name: str, **fields: Any) -> WorkloadKey:
        record = WorkloadRecord(
            namespace="ns",
            name=name,
            uid=f"uid-{name}",
            queue_name="lq",
            created_at=self.now,
            pod_sets=(PodSet(name="main", count=1, requests={"cpu": 1000}, labels={"app": name}),),
            job=JobReference(api_version="batch/v1", kind="Job", key=f"ns/{name}", uid=f"job-{name}"),  # type: ignore[arg-type]
            **fields,
        )
        self.tell("slices", WorkloadCreated(cause=0, workload=record))
        return record.key

    def reserve(self, key: WorkloadKey, flavor: str = "default", **fields: Any) -> None:
        pods = PodSetAssignment(name="main", count=1, flavors={"cpu": flavor}, usage={"cpu": 1000})
        self.tell(
            "scheduler", QuotaReserved(cause=0, workload=key, cluster_queue="cq", pod_sets=(pods,), **fields)
        )

    def admit(self, key: WorkloadKey) -> None:
        self.tell("scheduler", Admitted(cause=0, workload=key))

    def evict(self, key: WorkloadKey, *, release: bool = True) -> None:
        events: list[Event] = [Evicted(cause=0, workload=key, reason="Preempted")]
        if release:
            events.append(QuotaReleased(cause=0, workload=key))
        self.tell("scheduler", *events)

    def release(self, key: WorkloadKey) -> None:
        self.tell("scheduler", QuotaReleased(cause=0, workload=key))

    def finish(self, key: WorkloadKey) -> None:
        self.tell("slices", WorkloadFinished(cause=0, workload=key))

    def say(
        self,
        key: str,
        check: str,
        state: str,
        attempt: int = 1,
        controller: str | None = None,
        **fields: Any,
    ) -> int:
        """Let a controller (by default the check's) give a verdict; return its sequence."""
        data = {"workload": key, "check": check, "state": state, "attempt": attempt, **fields}
        return self.message(verdict_suffix(controller or f"ctl-{check}"), "CheckVerdict", data)

    # The service

    def fold(self) -> None:
        for entry in self.log[self.seen :]:
            if not any(True for _ in entries_for(self.decider, (entry,))) or entry.suffix == "checks":
                continue
            self.upto = entry.seq
            if "." in entry.suffix:
                event = Message(subject=entry.suffix, payload=entry.payload)
                self.decider.apply(self.state, event, entry.seq, entry.at)
            else:
                for step in decode_commit(entry.payload).steps:
                    for one in step.events:
                        self.decider.apply(self.state, one, entry.seq, step.at)
        self.seen = len(self.log)

    def settle(self, seconds: float = 0) -> list[Event]:
        """Let time pass and the service catch up; return what it says."""
        self.now += int(seconds * SECOND) + 1000
        self.fold()
        steps = list(settle(self.decider, self.state, self.upto, self.now, most=200))
        if steps:
            self.append("checks", encode_commit("main", "checks", f"checks-{len(self.log)}", steps))
            self.seen = len(self.log)
        found = [event for step in steps for event in step.events]
        self.said += found
        return found

    def requests(self) -> dict[tuple[str, str], CheckRequest]:
        """Return (workload, check) -> what its controller is asked."""
        return {(f"{r.workload.namespace}/{r.workload.name}", r.check): r for r in requests(self.state)}

    def verify(self) -> None:
        """Decide the log again: the same comes out (law 6), and a snapshot goes on as it was."""
        verdict = verify(AdmissionChecks(), list(entries_for(self.decider, self.log)))
        assert verdict.divergence is None, str(verdict.divergence)
        data = self.decider.dump(verdict.fold.state)
        assert self.decider.dump(self.decider.load(data)) == data
        assert self.decider.dump(self.state) == data


def flavor(name: str, **labels: str) -> dict[str, Any]:
    return _object("ResourceFlavor", name, {"nodeLabels": labels})


def check(name: str, controller: str | None = None, **spec: Any) -> dict[str, Any]:
    """Return an AdmissionCheck; its controller is `ctl-<name>` unless named."""
    return _object("AdmissionCheck", name, {"controllerName": controller or f"ctl-{name}", **spec})


def queue(*checks: str | tuple[str, Sequence[str]], flavors: Sequence[str] = ("default",)) -> dict[str, Any]:
    """Return ClusterQueue `cq`; a check is a name, or a name and its onFlavors."""
    rules = [
        {"name": each} if isinstance(each, str) else {"name": each[0], "onFlavors": list(each[1])}
        for each in checks
    ]
    quotas = [{"name": each, "resources": [{"name": "cpu", "nominalQuota": 10}]} for each in flavors]
    spec: dict[str, Any] = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": quotas}]}
    if rules:
        spec["admissionChecksStrategy"] = {"admissionChecks": rules}
    return _object("ClusterQueue", "cq", spec)


def configuration(**spec: Any) -> dict[str, Any]:
    return {**_object("Configuration", "default", spec), "apiVersion": "sluice.dev/v1alpha1"}


def _object(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return kueue_object(kind, name, dict(spec))


def world(*checks: str, flavors: Sequence[str] = ("default",)) -> ChecksWorld:
    """Return a world whose queue has these checks, their controllers there."""
    found = ChecksWorld()
    found.apply(*[flavor(name) for name in flavors], *[check(name) for name in checks])
    found.apply(queue(*checks, flavors=flavors))
    for name in checks:
        found.presence(f"ctl-{name}")
    found.settle()
    return found
