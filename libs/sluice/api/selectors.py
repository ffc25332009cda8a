"""Label selectors: do these labels match?"""

from collections.abc import Mapping, Sequence

from .meta import LabelSelector, LabelSelectorRequirement

Labels = Mapping[str, str]


def matches(selector: LabelSelector | None, labels: Labels) -> bool:
    """Return whether *labels* meet *selector*: an empty one matches all, an absent one (None) nothing.

    >>> team = LabelSelector(match_labels={"team": "ml"})
    >>> matches(team, {"team": "ml", "tier": "gold"}), matches(LabelSelector(), {}), matches(None, {})
    (True, True, False)
    """
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        meets(requirement, labels) for requirement in selector.match_expressions
    )


def meets(requirement: LabelSelectorRequirement, labels: Labels) -> bool:
    """Return whether *labels* meet one expression; NotIn and DoesNotExist hold where the key is absent.

    An operator that validation would have refused is never met.

    >>> large = LabelSelectorRequirement(key="gpus", operator="Gt", values=["4"])
    >>> meets(large, {"gpus": "8"}), meets(large, {"gpus": "many"}), meets(large, {})
    (True, False, False)
    """
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
        case "Gt":
            return value is not None and compare(value, requirement.values) > 0
        case "Lt":
            return value is not None and compare(value, requirement.values) < 0
    return False


def compare(value: str, bounds: Sequence[str]) -> int:
    """Return the sign of *value* less its one bound; 0, neither greater nor less, where one is no integer."""
    try:
        (bound,) = map(int, bounds)
        found = int(value)
    except ValueError:
        return 0
    return (found > bound) - (found < bound)
