"""Updates that checks add to the pods: nothing may contradict the job, its flavors or another check (AC2)."""

from collections.abc import Iterable, Mapping, Sequence

from sluice.api.errors import FieldError, aggregate, duplicate, invalid, not_supported
from sluice.api.kueue import PodSetUpdate, ResourceFlavorSpec
from sluice.api.validation import names
from sluice.api.validation.flavor import check_toleration_keys, schema_tolerations
from sluice.core.workload.admission_checks import READY, CheckState
from sluice.events.base import PodSet, PodSetAssignment

INVALID = "InvalidPodSetUpdates"
"""Reason of a check that is Rejected for what it wants to add."""

_MAPS = (("labels", "labels"), ("annotations", "annotations"), ("nodeSelector", "node_selector"))


def refusal(
    updates: Sequence[PodSetUpdate],
    pod_sets: Sequence[PodSet],
    assignment: Sequence[PodSetAssignment],
    flavors: Mapping[str, ResourceFlavorSpec],
    others: Iterable[CheckState],
) -> str:
    """Return why these updates cannot be made, '' if they can."""
    if not updates:
        return ""
    found = _invalid(updates, pod_sets)
    if not found:
        found = _conflicts(updates, pod_sets, assignment, flavors, others)
    return f"Invalid podSetUpdates: {aggregate(found)}" if found else ""


def _invalid(updates: Sequence[PodSetUpdate], pod_sets: Sequence[PodSet]) -> list[FieldError]:
    known = sorted(pods.name for pods in pod_sets)
    found: list[FieldError] = []
    seen: dict[str, None] = {}
    for i, update in enumerate(updates):
        place = f"podSetUpdates[{i}]"
        if update.name not in known:
            found.append(not_supported(f"{place}.name", update.name, known))
        elif update.name in seen:
            found.append(duplicate(f"{place}.name", update.name))
        seen[update.name] = None
    return found


def malformed(updates: Sequence[PodSetUpdate]) -> list[FieldError]:
    """Return what no pods could have, whatever they are: it is no verdict on the workload."""
    found: list[FieldError] = []
    for i, update in enumerate(updates):
        place = f"podSetUpdates[{i}]"
        found += names.check_labels(f"{place}.labels", update.labels)
        found += names.check_annotations(f"{place}.annotations", update.annotations)
        found += names.check_labels(f"{place}.nodeSelector", update.node_selector)
        found += check_toleration_keys(f"{place}.tolerations", update.tolerations)
        found += schema_tolerations(f"{place}.tolerations", update.tolerations)
    return found


def _conflicts(
    updates: Sequence[PodSetUpdate],
    pod_sets: Sequence[PodSet],
    assignment: Sequence[PodSetAssignment],
    flavors: Mapping[str, ResourceFlavorSpec],
    others: Iterable[CheckState],
) -> list[FieldError]:
    templates = {pods.name: pods for pods in pod_sets}
    assigned = {pods.name: pods for pods in assignment}
    said = [
        (state.name, update) for state in others if state.state == READY for update in state.pod_set_updates
    ]
    found: list[FieldError] = []
    for i, update in enumerate(updates):
        template = templates[update.name]
        for word, attribute in _MAPS:
            sources: list[tuple[str, Mapping[str, str]]] = [("the job", getattr(template, attribute))]
            if attribute == "node_selector" and update.name in assigned:
                sources += [
                    (f"flavor {name}", flavors[name].node_labels)
                    for name in dict.fromkeys(assigned[update.name].flavors.values())
                    if name in flavors
                ]
            sources += [
                (f"admission check {check}", getattr(other, attribute))
                for check, other in said
                if other.name == update.name
            ]
            for key, value in getattr(update, attribute).items():
                for who, there in sources:
                    if there.get(key, value) != value:
                        text = f'conflicts with {who}, which has "{there[key]}"'
                        found.append(invalid(f"podSetUpdates[{i}].{word}[{key}]", value, text))
    return found


__all__ = ["INVALID"]
