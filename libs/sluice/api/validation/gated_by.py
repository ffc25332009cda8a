"""The annotation `admission-gated-by`: a comma-separated list of who must let the workload pass."""

from collections.abc import Mapping

from sluice.api.errors import FieldError, forbidden, invalid, too_long
from sluice.api.labels import ADMISSION_GATED_BY

from . import names

FIELD = f"metadata.annotations[{ADMISSION_GATED_BY}]"
MAX_GATE_BYTES = 63


def check_gated_by(
    annotations: Mapping[str, str], before: Mapping[str, str] | None = None
) -> list[FieldError]:
    """Check the annotation; with *before* (an update), also that gates only go and never come."""
    value = annotations.get(ADMISSION_GATED_BY, "")
    found: list[FieldError] = []
    if before is not None and value:
        found += _check_change(value, before.get(ADMISSION_GATED_BY, ""))
    seen: dict[str, None] = {}
    for part in value.split(",") if value else ():
        gate = part.strip()
        if not gate:
            found.append(invalid(FIELD, value, "cannot contain empty gate names"))
        elif gate in seen:
            found.append(invalid(FIELD, value, f"duplicate gate name: {gate}"))
        else:
            seen[gate] = None
            found += names.check_domain_path(FIELD, gate)
            if len(gate.encode()) > MAX_GATE_BYTES:
                found.append(too_long(FIELD, MAX_GATE_BYTES))
    return found


def _check_change(value: str, before: str) -> list[FieldError]:
    if not before:
        return [forbidden(FIELD, "cannot add admission gate after creation")]
    known = before.split(",")
    if all(gate in known for gate in value.split(",")):
        return []
    return [forbidden(FIELD, "can only remove gates, not add new ones")]
