"""Which changes of counts are a plain shrink (WS3)."""

from sluice.core.slices.resize import scaled_down
from tests.conformance.framework import Json, compare

SUITE = "workloadslicing.TestScaledDown"
LEFT_OUT: dict[str, str] = {}


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    given = case["input"]
    found = scaled_down(given["oldCounts"] or {}, given["newCounts"] or {})
    compare(found, case["expect"]["want"], "scaledDown")
