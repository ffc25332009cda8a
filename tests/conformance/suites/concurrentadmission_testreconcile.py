"""What becomes of a family when it is looked at once."""

from typing import Any

from sluice.core.decision_loop import settle
from sluice.core.variants.decide import family_deadline
from sluice.core.variants.decider import VariantController
from sluice.events.base import Event
from sluice.events.variants import (
    ParentAdmitted,
    ParentEvicted,
    PreemptionGateOpened,
    VariantActivated,
    VariantCreated,
    VariantDeactivated,
    VariantDeleted,
)
from tests.conformance.build import micros
from tests.conformance.build_variants import GATE, conditions_of, family_of
from tests.conformance.framework import Json, compare

SUITE = "concurrentadmission.TestReconcile"
LEFT_OUT = {
    "ungates the next-preferred variant once the open gate's preemption timeout elapses": (
        "deviates: CA11 the previous gate is closed then, so that never two are open"
    ),
    "admitted variant evicted; parent has no quota reservation; clear variant reservation": (
        "white-box: the scheduler gives the quota back when the job has stopped (G9), nobody else does"
    ),
    "admitted variant's flavor removed; variant deleted and parent evicted": (
        "deviates: CA13, G9 the parent is evicted, and the variant deleted when its job has stopped"
    ),
}

_REASONS: dict[type[Event], str] = {
    VariantCreated: "CreatedVariant",
    VariantDeleted: "DeletedVariant",
    VariantActivated: "ActivatedVariant",
    VariantDeactivated: "DeactivatedVariant",
    PreemptionGateOpened: "PreemptionUngatedVariant",
}


def run(case: Json, header: Json) -> None:
    """Decide until the family is settled, and compare variants, parent and events."""
    del header
    found = family_of(case)
    expect = case["expect"]
    if found is None:
        compare([], expect["wantEvents"] or [], "events")
        return
    state, family = found
    controller = VariantController()
    at = micros(case["now"])
    state.todo[family.key] = None
    decided: list[Any] = [event for step in settle(controller, state, 1, at) for event in step.events]
    ours = [
        {"reason": _REASONS[type(event)], "message": event.message}
        for event in decided
        if type(event) in _REASONS
    ]
    wanted = [{"reason": e["reason"], "message": e["message"]} for e in expect["wantEvents"] or ()]
    compare(sorted(ours, key=repr), sorted(wanted, key=repr), "events")
    _check_parent(case, decided)
    if state.policy_of(family) is not None:
        variants = {
            v.record.name: {
                "active": v.active,
                "open": v.gate_at is not None,
                "gates": list(v.record.preemption_gates),
            }
            for v in family.variants.values()
        }
        compare(
            variants,
            {m["metadata"]["name"]: _wanted(m) for m in expect["wantVariantWorkloads"] or ()},
            "variants",
        )
    if (expect["wantResult"] or {}).get("requeueAfter") == "4m0s":
        compare(family_deadline(state, family), at + 240_000_000, "deadline")


def _wanted(manifest: Json) -> Json:
    gates = (manifest.get("status") or {}).get("preemptionGates") or ()
    return {
        "active": manifest["spec"].get("active") is not False,
        "open": any(g["name"] == GATE and g["position"] == "Open" for g in gates),
        "gates": [gate["name"] for gate in manifest["spec"].get("preemptionGates") or ()],
    }


def _check_parent(case: Json, decided: list[object]) -> None:
    wanted = case["expect"]["wantParentWorkload"]
    if wanted is None:
        return
    before = conditions_of(case["input"]["parentWorkload"] or wanted)
    after = conditions_of(wanted)
    for event in decided:
        if isinstance(event, ParentAdmitted):
            compare(event.message, after["Admitted"]["message"], "admitted")
            flavors = [dict(p.flavors) for p in event.pod_sets]
            recorded = [p["flavors"] for p in wanted["status"]["admission"]["podSetAssignments"]]
            compare(flavors, recorded, "flavors")
        if isinstance(event, ParentEvicted):
            compare(
                [event.reason, event.message],
                [after["Evicted"]["reason"], after["Evicted"]["message"]],
                "evicted",
            )
    kinds = {type(event) for event in decided}
    compare(ParentAdmitted in kinds, "Admitted" in after and "Admitted" not in before, "parent admitted")
    compare(ParentEvicted in kinds, "Evicted" in after and "Evicted" not in before, "parent evicted")
