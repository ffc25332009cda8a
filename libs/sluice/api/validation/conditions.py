"""Status conditions."""

import re
from collections.abc import Iterator, Sequence

from sluice.api.errors import FieldError, duplicate, invalid, not_supported, required, too_long
from sluice.api.meta import Condition

from . import names

_REASON = r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_is_reason = re.compile(_REASON).fullmatch
_REASON_TEXT = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',"
    "  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation "
    f"is '{_REASON}')"
)
_STATUSES = ("False", "True", "Unknown")


def check_conditions(field: str, conditions: Sequence[Condition]) -> list[FieldError]:
    found: list[FieldError] = []
    seen: dict[str, None] = {}
    for i, condition in enumerate(conditions):
        if condition.type in seen:
            found.append(duplicate(f"{field}[{i}].type", condition.type))
        seen[condition.type] = None
        found += _check_condition(f"{field}[{i}]", condition)
    return found


def _check_condition(field: str, condition: Condition) -> Iterator[FieldError]:
    yield from names.check_label_key(f"{field}.type", condition.type)
    if condition.status not in _STATUSES:
        yield not_supported(f"{field}.status", condition.status, _STATUSES)
    if condition.observed_generation < 0:
        text = "must be greater than or equal to zero"
        yield invalid(f"{field}.observedGeneration", condition.observed_generation, text)
    if not condition.last_transition_time:
        yield required(f"{field}.lastTransitionTime", "must be set")
    if not condition.reason:
        yield required(f"{field}.reason", "must be set")
    else:
        if not _is_reason(condition.reason):
            yield invalid(f"{field}.reason", condition.reason, _REASON_TEXT)
        if len(condition.reason.encode()) > 1024:
            yield too_long(f"{field}.reason", 1024)
    if len(condition.message.encode()) > 32 * 1024:
        yield too_long(f"{field}.message", 32 * 1024)
