"""`successPolicy` and `podFailurePolicy` of batch/v1 Jobs, as far as processes can match them. Pure."""

import signal
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from .errors import PlanError


class Action(Enum):
    FAIL_JOB = "FailJob"
    FAIL_INDEX = "FailIndex"
    IGNORE = "Ignore"
    COUNT = "Count"


@dataclass(frozen=True, slots=True)
class FailureRule:
    """Of pods with one of these exit codes, or with *others*. Rules on conditions match no process."""

    action: Action
    codes: frozenset[int] = frozenset()
    others: bool = False

    def matches(self, code: int) -> bool:
        return (code in self.codes) is not self.others


@dataclass(frozen=True, slots=True)
class SuccessRule:
    """Met when *count* of the indexes have succeeded. *indexes*: first and last of each range; None: any."""

    indexes: Sequence[tuple[int, int]] | None = None
    count: int | None = None

    def met_by(self, succeeded: Set[int]) -> bool:
        if self.indexes is None:
            return len(succeeded) >= (self.count or 0)
        found = sum(any(first <= i <= last for first, last in self.indexes) for i in succeeded)
        all_of_them = sum(last - first + 1 for first, last in self.indexes)
        return found >= (all_of_them if self.count is None else self.count)


def matching_success(rules: Sequence[SuccessRule], succeeded: Set[int]) -> int | None:
    """Return the index of the first rule that is met."""
    return next((i for i, rule in enumerate(rules) if rule.met_by(succeeded)), None)


def matching_failure(rules: Sequence[FailureRule | None], pod: str, code: int) -> tuple[Action, str]:
    """Return what a pod's failure means by the first rule that matches, and how Kubernetes says so."""
    status = exit_status(code)
    for i, rule in enumerate(rules):
        if rule is not None and rule.matches(status):
            text = f"Pod {pod} failed with exit code {status} matching {rule.action.value} rule at index {i}"
            return rule.action, text
    return Action.COUNT, ""


def exit_status(code: int) -> int:
    """Return the exit code as containers have it: 128 + n when signal n has ended them."""
    return code if code >= 0 else 128 - code


def describe_exit(code: int) -> str:
    """Return an exit code in words: `exit code 3`, `killed by SIGKILL`."""
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"


# Reading


def failure_rules(policy: Mapping[str, Any] | None) -> tuple[FailureRule | None, ...]:
    """Return the rules of a podFailurePolicy in their order; None for those that match no process.

    Raises:
        PlanError: a rule cannot be understood.
    """
    rules: list[FailureRule | None] = []
    for i, rule in enumerate(_rules("podFailurePolicy", policy)):
        codes = rule.get("onExitCodes")
        if codes is None:
            rules.append(None)
            continue
        try:
            values = frozenset(int(value) for value in codes["values"])
            others = {"In": False, "NotIn": True}[codes["operator"]]
            rules.append(FailureRule(Action(rule["action"]), values, others))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise PlanError(f"podFailurePolicy.rules[{i}] cannot be understood: {error!r}") from None
    return tuple(rules)


def success_rules(policy: Mapping[str, Any] | None) -> tuple[SuccessRule, ...]:
    """Return the rules of a successPolicy in their order.

    Raises:
        PlanError: a rule cannot be understood.
    """
    rules = []
    for i, rule in enumerate(_rules("successPolicy", policy)):
        text, count = rule.get("succeededIndexes"), rule.get("succeededCount")
        try:
            if text is None and count is None:
                raise ValueError("neither succeededIndexes nor succeededCount")
            indexes = None if text is None else tuple(_range(part) for part in text.split(","))
            rules.append(SuccessRule(indexes, None if count is None else int(count)))
        except (AttributeError, TypeError, ValueError) as error:
            raise PlanError(f"successPolicy.rules[{i}] cannot be understood: {error}") from None
    return tuple(rules)


def _rules(name: str, policy: Mapping[str, Any] | None) -> Sequence[Mapping[str, Any]]:
    rules = (policy or {}).get("rules") or []
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise PlanError(f"{name}.rules must be a list of rules")
    return rules


def _range(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    return int(first), int(last if dash else first)
