"""The admission-check service alone, its neighbours played by the test.

`tell` lets a neighbour commit events, `say` lets a controller answer, `settle` lets the service catch up and
decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from sluice.core.checks.decider import AdmissionChecks
from sluice.core.checks.requests import requests
from sluice.core.checks.state import State
from sluice.events.base import Event, Micros, PodSet, PodSetAssignment, WorkloadKey
from sluice.events.scheduler import Admitted, Evicted, QuotaReleased, QuotaReserved
from sluice.events.slices import JobReference, WorkloadCreated, WorkloadFinished, WorkloadRecord
from sluice.protocol.checks import CheckRequest
from sluice.protocol.subjects import verdict_suffix

from .memory_log import SECOND, START, TICK, World
from .objects import configuration, kueue_object, resource_group


@dataclass
class ChecksWorld(World):
    said: list[Event] = field(default_factory=list)
    """All that the service has decided."""

    def __post_init__(self) -> None:
        self.serve(AdmissionChecks())

    @property
    def state(self) -> State:
        found: State = self.services["checks"].state
        return found

    @property
    def upto(self) -> int:
        """Return the sequence of the last message that the service has seen."""
        return self.services["checks"].upto

    def deadline(self) -> Micros | None:
        """Return when the service wakes by itself."""
        return self.services["checks"].decider.deadline(self.state)

    def append(self, suffix: str, payload: bytes) -> int:
        self.now += TICK
        return super().append(suffix, payload)

    # Neighbours

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

    def reserve(self, key: WorkloadKey, flavor: str = "default", **fields: Any) -> Self:
        pods = PodSetAssignment(name="main", count=1, flavors={"cpu": flavor}, usage={"cpu": 1000})
        self.tell(
            "scheduler", QuotaReserved(cause=0, workload=key, cluster_queue="cq", pod_sets=(pods,), **fields)
        )
        return self

    def admit(self, key: WorkloadKey) -> Self:
        self.tell("scheduler", Admitted(cause=0, workload=key))
        return self

    def evict(self, key: WorkloadKey, *, release: bool = True) -> Self:
        events: list[Event] = [Evicted(cause=0, workload=key, reason="Preempted")]
        if release:
            events.append(QuotaReleased(cause=0, workload=key))
        self.tell("scheduler", *events)
        return self

    def release(self, key: WorkloadKey) -> Self:
        self.tell("scheduler", QuotaReleased(cause=0, workload=key))
        return self

    def finish(self, key: WorkloadKey) -> Self:
        self.tell("slices", WorkloadFinished(cause=0, workload=key))
        return self

    def say(
        self,
        key: str,
        check: str,
        state: str,
        attempt: int = 1,
        controller: str | None = None,
        **fields: Any,
    ) -> Self:
        """Let a controller (by default the check's) give a verdict; return its sequence."""
        data = {"workload": key, "check": check, "state": state, "attempt": attempt, **fields}
        self.message(verdict_suffix(controller or f"ctl-{check}"), "CheckVerdict", data)
        return self

    # The service

    def settle(self, seconds: float = 0) -> list[Event]:
        """Let time pass and the service catch up; return what it says."""
        self.now += int(seconds * SECOND) + TICK
        found = self.step("checks")
        self.said += found
        return found

    def requests(self) -> dict[tuple[str, str], CheckRequest]:
        """Return (workload, check) -> what its controller is asked."""
        return {(f"{r.workload.namespace}/{r.workload.name}", r.check): r for r in requests(self.state)}


def flavor(name: str, **labels: str) -> dict[str, Any]:
    return kueue_object("ResourceFlavor", name, {"nodeLabels": labels})


def check(name: str, controller: str | None = None, **spec: Any) -> dict[str, Any]:
    """Return an AdmissionCheck; its controller is `ctl-<name>` unless named."""
    return kueue_object("AdmissionCheck", name, {"controllerName": controller or f"ctl-{name}", **spec})


def queue(*checks: str | tuple[str, Sequence[str]], flavors: Sequence[str] = ("default",)) -> dict[str, Any]:
    """Return ClusterQueue `cq`; a check is a name, or a name and its onFlavors."""
    rules = [
        {"name": each} if isinstance(each, str) else {"name": each[0], "onFlavors": list(each[1])}
        for each in checks
    ]
    spec: dict[str, Any] = {"resourceGroups": [resource_group(dict.fromkeys(flavors, 10))]}
    if rules:
        spec["admissionChecksStrategy"] = {"admissionChecks": rules}
    return kueue_object("ClusterQueue", "cq", spec)


def world(*checks: str, flavors: Sequence[str] = ("default",)) -> ChecksWorld:
    """Return a world whose queue has these checks, their controllers there."""
    found = ChecksWorld()
    found.apply(*[flavor(name) for name in flavors], *[check(name) for name in checks])
    found.apply(queue(*checks, flavors=flavors))
    for name in checks:
        found.presence(f"ctl-{name}")
    found.settle()
    return found


__all__ = ["SECOND", "START", "ChecksWorld", "check", "configuration", "flavor", "queue", "world"]
