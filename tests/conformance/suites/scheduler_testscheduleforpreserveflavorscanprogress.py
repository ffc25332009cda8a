"""How far the search for a flavor came, when placement in a topology failed."""

from tests.conformance.framework import Json

SUITE = "scheduler.TestScheduleForPreserveFlavorScanProgress"
_TOPOLOGY = "out of scope: topology-aware scheduling (placement on nodes)"
LEFT_OUT = dict.fromkeys(
    (
        "gate disabled",
        "gate enabled",
        "no generation churn, gate disabled",
        "no generation churn, gate enabled",
    ),
    _TOPOLOGY,
)


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    raise AssertionError("topology-aware scheduling")
