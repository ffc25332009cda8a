"""One scheduling cycle over all queues."""

from tests.conformance.build_schedule import check
from tests.conformance.framework import Json

SUITE = "scheduler.TestSchedule"
LEFT_OUT = {
    "error during admission": "white-box: a failing API client; our decisions are written as one commit",
}


def run(case: Json, header: Json) -> None:
    check(case, header)
