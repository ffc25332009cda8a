"""Two cycles: how the search for a flavor goes on where it stopped."""

from sluice.core.scheduler.decider import Scheduler
from sluice.events.base import WorkloadKey
from sluice.events.slices import WorkloadDeleted
from tests.conformance.build import now_of
from tests.conformance.build_schedule import Run, check_admissions, check_conditions
from tests.conformance.framework import Json

SUITE = "scheduler.TestLastSchedulingContext"
LEFT_OUT: dict[str, str] = {}


def run(case: Json, header: Json) -> None:
    found = Run(case, header)
    found.cycle()
    check_conditions(found, case["expect"]["wantWorkloadsAfterFirstCycle"])
    for name in case["input"]["deleteWorkloadsAfterFirstCycle"] or ():
        event = WorkloadDeleted(cause=0, workload=WorkloadKey(f"{name['namespace']}/{name['name']}"))
        Scheduler().apply(found.state, event, 0, now_of(case))
    for queue in found.state.pending.queues.values():
        found.state.pending.wake(queue)
    found.cycle()
    check_admissions(found.state, case["expect"]["wantAdmissionsOnSecondSchedule"])
