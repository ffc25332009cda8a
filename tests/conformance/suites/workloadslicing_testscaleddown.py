"""Which changes of counts are a plain shrink (WS3)."""

from sluice.core.workload.charges import grows
from tests.conformance.framework import Json, compare

SUITE = "workloadslicing.TestScaledDown"
LEFT_OUT: dict[str, str] = {}


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    given = case["input"]
    old, new = given["oldCounts"] or {}, given["newCounts"] or {}
    found = any(new.get(name, n) < n for name, n in old.items()) and not grows(old, new)
    compare(found, case["expect"]["want"], "scaledDown")
