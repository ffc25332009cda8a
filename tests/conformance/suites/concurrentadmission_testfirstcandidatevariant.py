"""Whose preemption gate may be opened next."""

from sluice.core.variants.gates import first_candidate
from tests.conformance.build_variants import variant_of
from tests.conformance.framework import Json, compare

SUITE = "concurrentadmission.TestFirstCandidateVariant"
LEFT_OUT: dict[str, str] = {}


def run(case: Json, header: Json) -> None:
    del header
    given = case["input"]
    variants = [variant_of(manifest) for manifest in given.get("sortedVariants") or given["Workload"]]
    found = first_candidate([v for v in variants if v.gate_at is None])
    compare(found.record.name if found is not None else None, case["expect"]["want"], "candidate")
