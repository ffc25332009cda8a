"""Which changes of a cluster queue concern parents."""

from typing import Any

from sluice.core.world.variant_policy import policy_of
from tests.conformance.build_variants import spec_of
from tests.conformance.framework import Json, compare

SUITE = "concurrentadmission.TestClusterQueueFlavorsChanged"
LEFT_OUT = {
    f"ignored event: {kind}": "white-box: kinds of events of a Kubernetes watch"
    for kind in ("Create", "Delete", "Generic")
}


def run(case: Json, header: Json) -> None:
    """The variants that are wanted change when the flavors or their order do, and only then."""
    del header
    before, after = (_wanted(case["input"][name]) for name in ("oldClusterQueue", "newClusterQueue"))
    compare(before != after, case["expect"]["want"], "changed")


def _wanted(manifest: Json) -> Any:
    return policy_of(spec_of(manifest, force=True))
