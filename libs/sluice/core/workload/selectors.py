"""Kubernetes label selectors."""

from collections.abc import Mapping

from sluice.api.meta import LabelSelector, LabelSelectorRequirement


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Do *labels* meet all of the selector's requirements? The empty selector is met by all."""
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    return all(_holds(requirement, labels) for requirement in selector.match_expressions)


def _holds(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """Evaluate one requirement; an operator that Kubernetes does not have is never met."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


__all__ = ["matches"]
