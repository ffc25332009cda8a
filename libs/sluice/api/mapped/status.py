"""State of an object by the rules of its kind: for executors that watch objects elsewhere."""

from typing import Any, Literal

from .rules import StatusRule, StatusRules, find

State = Literal["", "Ready", "Succeeded", "Failed"]


def state_of(rules: StatusRules, whole: Any) -> State:
    """Return how far an object has come, "" while nothing is said; an end counts before readiness.

    >>> rules = StatusRules(succeeded=[StatusRule(path="status.phase", values=["Done"])])
    >>> state_of(rules, {"status": {"phase": "Done"}})
    'Succeeded'
    """
    if _any(rules.failed, whole):
        return "Failed"
    if _any(rules.succeeded, whole):
        return "Succeeded"
    return "Ready" if _any(rules.ready, whole) else ""


def message_of(rules: StatusRules, whole: Any) -> str:
    """Return what the object says of why, "" if nothing."""
    found = find(whole, rules.message) if rules.message else None
    return found if isinstance(found, str) else ""


def _any(rules: list[StatusRule], whole: Any) -> bool:
    return any(_holds(rule, whole) for rule in rules)


def _holds(rule: StatusRule, whole: Any) -> bool:
    if rule.condition:
        conditions = find(whole, "status.conditions")
        return isinstance(conditions, list) and any(
            find(one, "type") == rule.condition and find(one, "status") == "True" for one in conditions
        )
    found = find(whole, rule.path)
    if isinstance(found, bool):
        found = str(found).lower()
    return found is not None and (not rule.values or str(found) in rule.values)
