"""What can be wrong with concurrent admission in manifests, and what is said of it (CA1-CA4)."""

import copy
from typing import Any

import pytest

from sluice.api.decode import DecodeError, decode_object
from sluice.api.defaults import default
from sluice.api.meta import Manifest
from sluice.api.validation import validate, validate_update

KUEUE = "kueue.x-k8s.io/v1beta2"
POLICY = "spec.concurrentAdmissionPolicy"
CONSTRAINTS = f"{POLICY}.migration.constraints"
VARIANTS = f"{POLICY}.explicitVariants"
PARENT = "kueue.x-k8s.io/concurrent-admission-parent"
GATE = "kueue.x-k8s.io/concurrent-admission"
Spec = dict[str, Any]


def group(resource: str, *flavors: str) -> Spec:
    quota = [{"name": resource, "nominalQuota": 1}]
    return {"coveredResources": [resource], "flavors": [{"name": f, "resources": quota} for f in flavors]}


def queue(
    *groups: Spec, constraints: Spec | None = None, mode: str = "", variants: Any = (), **more: Any
) -> Spec:
    migration: Spec = {"mode": mode} if mode else {}
    if constraints:
        migration["constraints"] = constraints
    policy: Spec = {"migration": migration}
    if variants:
        policy["explicitVariants"] = list(variants)
    return {
        "resourceGroups": list(groups) or [group("cpu", "a", "b")],
        "concurrentAdmissionPolicy": policy,
        **more,
    }


def variant(name: str, *flavors: str, **delays: int) -> Spec:
    return {"name": name, "allowedResourceFlavors": list(flavors), **delays}


def manifest(kind: str, spec: Any, version: str = KUEUE, **metadata: Any) -> Manifest:
    value = {"apiVersion": version, "kind": kind, "metadata": {"name": "x", **metadata}, "spec": spec}
    return default(decode_object(value))


BOTH = (variant("v", "a"), variant("w", "b"))
TWO_GROUPS = (group("cpu", "a"), group("memory", "m"))

REFUSED: dict[str, tuple[Spec, str]] = {
    "StrictFIFO": (queue(queueingStrategy="StrictFIFO"), "spec.queueingStrategy: Invalid value"),
    "more than 16 flavors": (
        queue(group("cpu", *(f"f{n}" for n in range(17)))),
        "spec.resourceGroups[0].flavors: Invalid value: 17: cannot have more than 16",
    ),
    "more than 16 variants": (
        queue(variants=[variant(f"v{n}", "a") for n in range(17)]),
        f"{VARIANTS}: Too many: 17: must have at most 16 items",
    ),
    "two groups without explicit variants": (
        queue(*TWO_GROUPS),
        "spec.resourceGroups: Invalid value: 2: must have exactly one ResourceGroup",
    ),
    "unknown last flavor": (
        queue(constraints={"lastAcceptableFlavorName": "z"}),
        f'{CONSTRAINTS}.lastAcceptableFlavorName: Invalid value: "z": must be one of the flavors',
    ),
    "unknown last variant": (
        queue(constraints={"lastAcceptableVariantName": "z"}, variants=BOTH),
        f'{CONSTRAINTS}.lastAcceptableVariantName: Invalid value: "z": must be one of the explicitVariants',
    ),
    "minFlavor with explicit variants": (
        queue(constraints={"lastAcceptableFlavorName": "a"}, variants=BOTH),
        f"{CONSTRAINTS}.lastAcceptableFlavorName: Forbidden: may not be set with explicitVariants",
    ),
    "minVariant without explicit variants": (
        queue(constraints={"lastAcceptableVariantName": "a"}),
        f"{CONSTRAINTS}.lastAcceptableVariantName: Forbidden: may only be set with explicitVariants",
    ),
    "constraints with RetainFirstAdmission": (
        queue(mode="RetainFirstAdmission", constraints={"lastAcceptableFlavorName": "a"}),
        f"{CONSTRAINTS}: Forbidden: may only be set when migration.mode",
    ),
    "unknown mode": (queue(mode="Sometimes"), f'{POLICY}.migration.mode: Unsupported value: "Sometimes"'),
    "unknown flavor of a variant": (
        queue(variants=[variant("v", "a", "z")]),
        f'{VARIANTS}[0].allowedResourceFlavors[1]: Unsupported value: "z"',
    ),
    "duplicate variant names": (
        queue(variants=[variant("v", "a"), variant("v", "b")]),
        f'{VARIANTS}[1].name: Duplicate value: "v"',
    ),
    "a variant name that is none": (
        queue(variants=[variant("V_", "a")]),
        f'{VARIANTS}[0].name: Invalid value: "V_"',
    ),
    "a variant without flavors": (
        queue(variants=[variant("v")]),
        f"{VARIANTS}[0].allowedResourceFlavors: Required value",
    ),
    "a variant without a flavor of a group": (
        queue(*TWO_GROUPS, variants=[variant("v", "a")]),
        f"{VARIANTS}[0].allowedResourceFlavors: Invalid value",
    ),
    "negative create delay": (
        queue(variants=[variant("v", "a", createDelaySeconds=-1)]),
        f"{VARIANTS}[0].createDelaySeconds: Invalid value: -1: must be greater than or equal to 0",
    ),
    "negative delete delay": (
        queue(variants=[variant("v", "a", deleteDelaySeconds=-5)]),
        f"{VARIANTS}[0].deleteDelaySeconds: Invalid value: -5: must be greater than or equal to 0",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_wrong_queue_is_refused_with_the_field(what: str) -> None:
    spec, text = REFUSED[what]
    found: list[str] = []
    try:
        found += [str(error) for error in validate(manifest("ClusterQueue", spec))]
    except DecodeError as error:
        found += [str(one) for one in error.errors]
    assert [one for one in found if one.startswith(text)], found


def test_a_good_queue_is_accepted() -> None:
    """The table's base, with each of its parts right."""
    for spec in (
        queue(),
        queue(variants=BOTH, constraints={"lastAcceptableVariantName": "v"}),
        queue(*TWO_GROUPS, variants=[variant("v", "a", "m", createDelaySeconds=0, deleteDelaySeconds=5)]),
        queue(mode="RetainFirstAdmission"),
    ):
        assert validate(manifest("ClusterQueue", spec)) == []


PLAIN = {key: value for key, value in queue().items() if key != "concurrentAdmissionPolicy"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (queue(), queue(mode="RetainFirstAdmission")),
        (queue(), queue(constraints={"lastAcceptableFlavorName": "a"})),
        (PLAIN, queue()),
        (queue(), PLAIN),
    ],
    ids=["mode", "constraints", "from absent", "to absent"],
)
def test_the_migration_is_immutable(old: Spec, new: Spec) -> None:
    (error,) = validate_update(manifest("ClusterQueue", new), manifest("ClusterQueue", old))
    assert str(error).startswith(f"{POLICY}: Invalid value")
    assert str(error).endswith("field is immutable")


def test_explicit_variants_may_be_edited() -> None:
    new = manifest("ClusterQueue", queue(variants=[*BOTH, variant("u", "a", "b")]))
    assert validate_update(new, manifest("ClusterQueue", queue(variants=BOTH))) == []


CONTAINER = {"name": "c", "resources": {"requests": {"cpu": 1}}}
TEMPLATE = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
OWNER = {"apiVersion": KUEUE, "kind": "Workload", "name": "p", "uid": "u", "controller": True}


@pytest.mark.parametrize(
    ("kind", "metadata", "spec", "field"),
    [
        ("Job", {"labels": {PARENT: "true"}}, {}, f"metadata.labels[{PARENT}]"),
        (
            "Job",
            {"annotations": {"kueue.x-k8s.io/preemption-gates": f"mine,{GATE}"}},
            {},
            "metadata.annotations[kueue.x-k8s.io/preemption-gates]",
        ),
        ("Workload", {"labels": {PARENT: "false"}}, {}, f"metadata.labels[{PARENT}]"),
        ("Workload", {"ownerReferences": [OWNER]}, {}, "metadata.ownerReferences[0]"),
        ("Workload", {}, {"preemptionGates": [{"name": GATE}]}, "spec.preemptionGates[0].name"),
    ],
)
def test_nobody_makes_parents_or_variants_by_hand(kind: str, metadata: Spec, spec: Spec, field: str) -> None:
    if kind == "Job":
        found = manifest(kind, {"template": TEMPLATE, **spec}, "batch/v1", **copy.deepcopy(metadata))
    else:
        found = manifest(
            kind, {"podSets": [{"name": "main", "count": 1, "template": TEMPLATE}], **spec}, **metadata
        )
    (error,) = validate(found)
    assert str(error).startswith(f"{field}: Forbidden: ")
