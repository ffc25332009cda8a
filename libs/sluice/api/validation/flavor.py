"""ResourceFlavor."""

from collections.abc import Iterator, Sequence

from sluice.api.core_v1 import Taint, Toleration
from sluice.api.errors import FieldError, duplicate, forbidden, invalid, not_supported, required, too_many
from sluice.api.kueue import ResourceFlavor

from . import names

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MAX_LABELS = 8
MAX_TAINTS = 8


def check_flavor(flavor: ResourceFlavor) -> list[FieldError]:
    """Check a new or changed flavor."""
    spec = flavor.spec
    found = names.check_labels("spec.nodeLabels", spec.node_labels)
    found += _check_taints("spec.nodeTaints", spec.node_taints)
    return found + check_toleration_keys("spec.tolerations", spec.tolerations)


def _check_taints(field: str, taints: Sequence[Taint]) -> Iterator[FieldError]:
    seen: dict[tuple[str, str], None] = {}
    for i, taint in enumerate(taints):
        place = f"{field}[{i}]"
        yield from names.check_label_key(f"{place}.key", taint.key)
        if messages := names.label_value(taint.value):
            yield invalid(f"{place}.value", taint.value, ";".join(messages))
        if (taint.key, taint.effect) in seen:
            yield duplicate(place, taint, "taints must be unique by key and effect pair")
        seen[taint.key, taint.effect] = None


def check_toleration_keys(field: str, tolerations: Sequence[Toleration]) -> list[FieldError]:
    """Check that keys of tolerations are label keys."""
    return [
        error
        for i, toleration in enumerate(tolerations)
        if toleration.key
        for error in names.check_label_key(f"{field}[{i}].key", toleration.key)
    ]


def schema_tolerations(field: str, tolerations: Sequence[Toleration]) -> list[FieldError]:
    """Check operators, effects, and that both fit the rest."""
    found: list[FieldError] = []
    for i, toleration in enumerate(tolerations):
        place = f"{field}[{i}]"
        if toleration.operator not in ("", "Exists", "Equal"):
            found.append(not_supported(f"{place}.operator", toleration.operator, ("Equal", "Exists")))
        if not toleration.key and toleration.operator != "Exists":
            text = "operator must be Exists when `key` is empty, which means 'match all values and all keys'"
            found.append(invalid(f"{place}.operator", toleration.operator, text))
        if toleration.operator == "Exists" and toleration.value:
            text = "a value must be empty when 'operator' is 'Exists'"
            found.append(invalid(f"{place}.operator", toleration.value, text))
        if toleration.effect and toleration.effect not in TAINT_EFFECTS:
            found.append(not_supported(f"{place}.effect", toleration.effect, TAINT_EFFECTS))
        if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            found.append(invalid(f"{place}.effect", toleration.effect, text))
    return found


def schema_flavor(flavor: ResourceFlavor) -> list[FieldError]:
    """Check what the CRD's schema says."""
    spec = flavor.spec
    found: list[FieldError] = []
    if len(spec.node_labels) > MAX_LABELS:
        found.append(too_many("spec.nodeLabels", len(spec.node_labels), MAX_LABELS))
    if len(spec.node_taints) > MAX_TAINTS:
        found.append(too_many("spec.nodeTaints", len(spec.node_taints), MAX_TAINTS))
    if len(spec.tolerations) > MAX_TAINTS:
        found.append(too_many("spec.tolerations", len(spec.tolerations), MAX_TAINTS))
    for i, taint in enumerate(spec.node_taints):
        if not taint.effect:
            found.append(required(f"spec.nodeTaints[{i}].effect"))
        elif taint.effect not in TAINT_EFFECTS:
            found.append(not_supported(f"spec.nodeTaints[{i}].effect", taint.effect, TAINT_EFFECTS))
    if spec.topology_name is not None and not spec.node_labels:
        text = "at least one nodeLabel is required when topology is set"
        found.append(forbidden("spec.topologyName", text))
    return found + schema_tolerations("spec.tolerations", spec.tolerations)
