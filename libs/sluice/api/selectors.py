"""Label selectors: do these labels match?"""

from collections.abc import Callable, Mapping

from .meta import LabelSelector, LabelSelectorRequirement

__all__ = ["Labels", "matches", "meets"]

Labels = Mapping[str, str]


def matches(selector: LabelSelector | None, labels: Labels) -> bool:
    """Return whether *labels* meet *selector*: an empty one matches all, an absent one (None) nothing.

    Raises:
        ValueError: an operator that validation would have refused.
    """
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        meets(requirement, labels) for requirement in selector.match_expressions
    )


def meets(requirement: LabelSelectorRequirement, labels: Labels) -> bool:
    """Return whether *labels* meet one expression; NotIn and DoesNotExist hold where the key is absent.

    Raises:
        ValueError: an unknown operator.
    """
    test = _OPERATORS.get(requirement.operator)
    if test is None:
        raise ValueError(f"{requirement.operator!r} is no selector operator")
    return test(requirement, labels)


def _in(requirement: LabelSelectorRequirement, labels: Labels) -> bool:
    return labels.get(requirement.key) in requirement.values


def _not_in(requirement: LabelSelectorRequirement, labels: Labels) -> bool:
    return requirement.key not in labels or labels[requirement.key] not in requirement.values


def _exists(requirement: LabelSelectorRequirement, labels: Labels) -> bool:
    return requirement.key in labels


def _does_not_exist(requirement: LabelSelectorRequirement, labels: Labels) -> bool:
    return requirement.key not in labels


def _greater(requirement: LabelSelectorRequirement, labels: Labels) -> bool:
    return _compare(requirement, labels) > 0


def _less(requirement: LabelSelectorRequirement, labels: Labels) -> bool:
    return _compare(requirement, labels) < 0


def _compare(requirement: LabelSelectorRequirement, labels: Labels) -> int:
    """Return the sign of label minus bound; 0 (neither greater nor less) where one is no integer."""
    try:
        found, bound = int(labels[requirement.key]), int(requirement.values[0])
    except (KeyError, IndexError, ValueError):
        return 0
    return (found > bound) - (found < bound)


_OPERATORS: Mapping[str, Callable[[LabelSelectorRequirement, Labels], bool]] = {
    "In": _in,
    "NotIn": _not_in,
    "Exists": _exists,
    "DoesNotExist": _does_not_exist,
    "Gt": _greater,
    "Lt": _less,
}
