"""What can be wrong with concurrent admission in manifests, and what is said of it (CA1-CA4)."""

import copy
import json
from typing import Any

import pytest

from sluice.api.decode import DecodeError, decode_object
from sluice.api.defaults import default
from sluice.api.meta import Manifest
from sluice.api.validation import validate, validate_update
from sluice.core.config.objects import Clock, Draft, Objects
from sluice.core.config.plan import plan_apply
from tests.support.objects import kueue_object

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
    *groups: Spec,
    constraints: Spec | None = None,
    mode: str = "TryPreferredFlavors",
    variants: Any = (),
    **more: Any,
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
    "no mode": (queue(mode=""), f"{POLICY}.migration.mode: Required value"),
    "an empty policy": (queue(concurrentAdmissionPolicy={}), f"{POLICY}.migration.mode: Required value"),
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
    "a create delay beyond 32 bits": (
        queue(variants=[variant("v", "a", createDelaySeconds=2**31)]),
        f"{VARIANTS}[0].createDelaySeconds: Invalid value: 2147483648: must be less than or equal to",
    ),
    "a delete delay beyond 32 bits": (
        queue(variants=[variant("v", "a", deleteDelaySeconds=2**31)]),
        f"{VARIANTS}[0].deleteDelaySeconds: Invalid value: 2147483648: must be less than or equal to",
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


@pytest.mark.parametrize("what", REFUSED)
def test_the_gate_makes_no_difference(what: str) -> None:
    """What could not be switched on is refused while the gate is off, too."""
    spec, text = REFUSED[what]
    try:
        found = [
            str(error) for error in validate(manifest("ClusterQueue", spec), {"ConcurrentAdmission": False})
        ]
    except DecodeError as error:
        found = [str(one) for one in error.errors]
    assert [one for one in found if one.startswith(text)], found


PROPOSAL = "spec.concurrentAdmission"
LIMITS = f"{PROPOSAL}.migrationConstraints"


def proposal(limits: Any = None, **more: Any) -> Spec:
    """Return a queue in the KEP's spelling."""
    written = {"migrationConstraints": {"mode": "UpgradeOnly"} if limits is None else limits}
    groups = more.pop("groups", [group("cpu", "a", "b")])
    spec = {"resourceGroups": groups, "concurrentAdmission": {**written, **more.pop("policy", {})}, **more}
    return kueue_object("ClusterQueue", "x", spec)


UPGRADE = {"mode": "UpgradeOnly"}
AS_WRITTEN: dict[str, tuple[Spec, str]] = {
    "empty": (
        proposal({}),
        f'{LIMITS}.mode: Required value: supported values: "UpgradeOnly", "NoMigration"',
    ),
    "unknown mode": (
        proposal({"mode": "Up"}),
        f'{LIMITS}.mode: Unsupported value: "Up": supported values: "UpgradeOnly", "NoMigration"',
    ),
    "limit without migration": (
        proposal({"mode": "NoMigration", "minFlavor": "a"}),
        f'{LIMITS}: Forbidden: may only be set when migrationConstraints.mode is "UpgradeOnly" '
        '(got "NoMigration")',
    ),
    "unknown flavor": (
        proposal({**UPGRADE, "minFlavor": "z"}),
        f'{LIMITS}.minFlavor: Invalid value: "z": must be one of the flavors defined in the ClusterQueue: '
        "[a b]",
    ),
    "a flavor that is no word": (
        proposal({**UPGRADE, "minFlavor": 7}),
        f"{LIMITS}.minFlavor: Invalid value: 7: expected string, got integer; put it in quotes",
    ),
    "a variant without variants": (
        proposal({**UPGRADE, "minVariant": "a"}),
        f"{LIMITS}.minVariant: Forbidden: may only be set with explicitVariants",
    ),
    "a misspelled limit": (
        proposal({**UPGRADE, "minflavor": "a"}),
        f'{LIMITS}.minflavor: Unknown field: did you mean "minFlavor"?',
    ),
    "the other spelling's limit": (
        proposal({**UPGRADE, "lastAcceptableFlavorName": "a"}),
        f"{LIMITS}.lastAcceptableFlavorName: Unknown field",
    ),
    "the other spelling's part": (
        proposal(policy={"migration": {"mode": "TryPreferredFlavors"}}),
        f"{PROPOSAL}.migration: Unknown field",
    ),
    "no mapping": (
        {**proposal(), "spec": {"concurrentAdmission": "yes"}},
        f'{PROPOSAL}: Invalid value: "yes": expected mapping, got string',
    ),
    "a variant": (
        proposal(policy={"explicitVariants": [variant("v", "z")]}),
        f'{PROPOSAL}.explicitVariants[0].allowedResourceFlavors[0]: Unsupported value: "z"',
    ),
    "a delay": (
        proposal(policy={"explicitVariants": [variant("v", "a", createDelaySeconds=2**31)]}),
        f"{PROPOSAL}.explicitVariants[0].createDelaySeconds: Invalid value: 2147483648",
    ),
    "StrictFIFO": (
        proposal(queueingStrategy="StrictFIFO"),
        'spec.queueingStrategy: Invalid value: "StrictFIFO": StrictFIFO queueing strategy cannot be used '
        "when concurrentAdmission is defined",
    ),
    "v1beta1": (
        {**proposal(), "apiVersion": "kueue.x-k8s.io/v1beta1"},
        f"{PROPOSAL}: Unknown field: concurrent admission needs apiVersion {KUEUE}",
    ),
    "v1beta1 and the other spelling": (
        {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": "x"}}
        | {"spec": queue()},
        f"{POLICY}: Unknown field: concurrent admission needs apiVersion {KUEUE}",
    ),
    "v1beta1's cohort": (
        {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": "x"}}
        | {"spec": {"cohort": "No_Name"}},
        'spec.cohort: Invalid value: "No_Name"',
    ),
    "v1beta1's checks": (
        {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": "x"}}
        | {"spec": {"admissionChecks": ["good", "No_Name"]}},
        'spec.admissionChecks[1]: Invalid value: "No_Name"',
    ),
}


@pytest.mark.parametrize("what", AS_WRITTEN)
def test_errors_name_what_was_written(what: str) -> None:
    """Whatever spelling is judged, the error is about the author's field, value and words (CA1)."""
    written, text = AS_WRITTEN[what]
    result = plan_apply(Draft(Objects(), Clock(at=0, upto=0)), written, "default")
    assert result.status is not None
    found = [f"{cause.field}: {cause.message}" for cause in result.status.details.causes]
    assert [one for one in found if one.startswith(text)], found
    for word in ("concurrentAdmissionPolicy", "lastAcceptable", "TryPreferred"):
        if word not in json.dumps(written):
            assert not [one for one in found if word in one], found


def test_what_may_not_change_is_named_as_written() -> None:
    """Immutable fields (CA3) in the KEP's spelling, with the value that was asked for."""
    objects = Objects()
    first = Draft(objects, Clock(at=0, upto=0))
    assert plan_apply(first, proposal(), "default").outcome == "created"
    for event in first.events:
        objects.apply(event, 1)
    result = plan_apply(Draft(objects, Clock(at=0, upto=1)), proposal({"mode": "NoMigration"}), "default")
    assert result.status is not None
    (cause,) = result.status.details.causes
    assert cause.field == PROPOSAL
    assert cause.message == (
        'Invalid value: {"migrationConstraints":{"mode":"NoMigration"}}: field is immutable'
    )


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
