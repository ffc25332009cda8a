"""One scheduling cycle over all queues."""

from tests.conformance.build_schedule import check
from tests.conformance.framework import Json

SUITE = "scheduler.TestScheduleRecomputePreemptionTargets"
LEFT_OUT: dict[str, str] = {}


def run(case: Json, header: Json) -> None:
    check(case, header)
