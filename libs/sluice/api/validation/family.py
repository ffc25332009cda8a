"""Parents and variants are the variant-controller's alone: nobody makes or imitates one by hand (CA4)."""

from sluice.api import labels
from sluice.api.errors import FieldError, forbidden
from sluice.api.kueue import Workload

_NOT_YOURS = "is set by the variant-controller only"


def check_parent_label(field: str, _value: str) -> list[FieldError]:
    """Refuse the label of parents on what users submit."""
    return [forbidden(field, _NOT_YOURS)]


def check_gate_names(field: str, gates: list[str]) -> list[FieldError]:
    """Refuse the gate that variants wait at: nobody would ever open it for others."""
    if labels.GATE_CONCURRENT_ADMISSION not in gates:
        return []
    return [forbidden(field, f'the gate "{labels.GATE_CONCURRENT_ADMISSION}" {_NOT_YOURS}')]


def check_not_of_family(workload: Workload) -> list[FieldError]:
    """Refuse workloads that say to be parents or variants."""
    metadata = workload.metadata
    found: list[FieldError] = []
    if labels.CONCURRENT_ADMISSION_PARENT in metadata.labels:
        found += check_parent_label(f"metadata.labels[{labels.CONCURRENT_ADMISSION_PARENT}]", "")
    for i, owner in enumerate(metadata.owner_references):
        if owner.kind == "Workload":
            text = "a Workload that belongs to another is a variant, which the variant-controller makes"
            found.append(forbidden(f"metadata.ownerReferences[{i}]", text))
    for i, gate in enumerate(workload.spec.preemption_gates):
        found += check_gate_names(f"spec.preemptionGates[{i}].name", [gate.name])
    return found
