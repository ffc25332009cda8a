"""A whole cell with admission checks: every service at its own pace, and controllers that the test plays."""

from typing import Any, Self

from sluice.core.checks.decider import AdmissionChecks
from sluice.core.checks.state import Reservation
from sluice.events.base import WorkloadKey
from sluice.protocol.subjects import verdict_suffix
from tests.support.family_world import FamilyWorld, cluster_queue, flavor, local_queue
from tests.support.objects import kueue_object

PEOPLE = "people.sluice.dev"


class CheckedCell(FamilyWorld):
    """With the admission-check service."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.serve(AdmissionChecks())

    def add_check(self, name: str, **spec: Any) -> Self:
        """Apply a check; its controller is `ctl-<name>` unless named."""
        self.apply(kueue_object("AdmissionCheck", name, {"controllerName": f"ctl-{name}", **spec}))
        return self

    def reservation(self, name: str) -> tuple[WorkloadKey, Reservation | None, int]:
        """Return the job's workload, its reservation and attempts, as the service has them."""
        for key, tracked in self.services["checks"].state.workloads.items():
            if tracked.record.job is not None and tracked.record.job.key == f"default/{name}":
                return key, tracked.reservation, tracked.attempts
        raise KeyError(name)

    def say(self, name: str, check: str, state: str, attempt: int = 0, **fields: Any) -> Self:
        """Let the check's controller speak of an attempt, by default the latest one."""
        key, _, attempts = self.reservation(name)
        controller = self.services["checks"].state.checks[check].spec.controller_name
        data = {"workload": key, "check": check, "attempt": attempt or attempts, "state": state, **fields}
        self.message(verdict_suffix(controller), "CheckVerdict", data)
        return self


def checked_cell(*checks: str, quota: int = 10, **spec: Any) -> CheckedCell:
    """Return a cell with one queue that has these checks; their controllers are there."""
    cell = CheckedCell()
    cell.apply(flavor("default"))
    for name in checks:
        cell.add_check(name)
        cell.presence(f"ctl-{name}")
    strategy = {"admissionChecks": [{"name": name} for name in checks]}
    queue = cluster_queue({"default": quota}, policy={}, admissionChecksStrategy=strategy, **spec)
    cell.apply(queue, local_queue())
    cell.settle()
    return cell
