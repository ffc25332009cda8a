"""Label selectors match as in Kubernetes."""

import pytest

from sluice.api.meta import LabelSelector, LabelSelectorRequirement
from sluice.api.selectors import matches

LABELS = {"team": "a", "size": "3"}


def expression(operator: str, key: str, *values: str) -> LabelSelector:
    requirement = LabelSelectorRequirement(key=key, operator=operator, values=list(values))
    return LabelSelector(match_expressions=[requirement])


def test_empty_matches_all_and_absent_nothing() -> None:
    assert matches(LabelSelector(), LABELS)
    assert matches(LabelSelector(), {})
    assert not matches(None, LABELS)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (LabelSelector(match_labels={"team": "a"}), True),
        (LabelSelector(match_labels={"team": "a", "x": ""}), False),
        (expression("In", "team", "a", "b"), True),
        (expression("In", "none", "a"), False),
        (expression("NotIn", "team", "a"), False),
        (expression("NotIn", "none", "a"), True),
        (expression("Exists", "team"), True),
        (expression("Exists", "none"), False),
        (expression("DoesNotExist", "none"), True),
        (expression("DoesNotExist", "team"), False),
        (expression("Gt", "size", "2"), True),
        (expression("Gt", "size", "3"), False),
        (expression("Lt", "size", "4"), True),
        (expression("Lt", "team", "4"), False),
    ],
)
def test_operators(selector: LabelSelector, expected: bool) -> None:
    assert matches(selector, LABELS) is expected


def test_all_parts_must_hold() -> None:
    selector = LabelSelector(
        match_labels={"team": "a"},
        match_expressions=[LabelSelectorRequirement(key="size", operator="DoesNotExist")],
    )

    assert not matches(selector, LABELS)


def test_an_unknown_operator_is_never_met() -> None:
    """Validation refuses it; the core does not stop at what an older version took."""
    assert not matches(expression("Like", "team", "a"), LABELS)


def test_what_is_no_single_integer_is_neither_greater_nor_less() -> None:
    for operator in ("Gt", "Lt"):
        assert not matches(expression(operator, "size", "1", "5"), LABELS)
        assert not matches(expression(operator, "size", "x"), LABELS)
        assert not matches(expression(operator, "size"), LABELS)
