"""Classical preemption in cohort trees."""

from tests.conformance.build_preemption import check_classical
from tests.conformance.framework import Json

SUITE = "preemption.TestHierarchicalPreemptions"
LEFT_OUT: dict[str, str] = {}


def run(case: Json, header: Json) -> None:
    check_classical(case, header)
