"""Quantities are exact integers, however they are written (G3)."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.api.quantity import MAX, MIN, QuantityError, format_value, parse, resource_value

RESOURCES = st.sampled_from(["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "hugepages-2Mi"])


@pytest.mark.parametrize(
    ("resource", "text", "value"),
    [
        ("cpu", "500m", 500),
        ("cpu", 9, 9000),
        ("cpu", 0.1, 100),
        ("cpu", "1e3", 1_000_000),
        ("cpu", "1m", 1),
        ("cpu", "1u", 1),
        ("memory", "1Gi", 2**30),
        ("memory", "1.5Ki", 1536),
        ("memory", "100m", 1),
        ("memory", "2G", 2 * 10**9),
        ("memory", "-1Gi", -(2**30)),
        ("nvidia.com/gpu", "8", 8),
        ("memory", "100E", MAX),
        ("memory", "-100E", MIN),
    ],
)
def test_known_quantities(resource: str, text: int | float | str, value: int) -> None:
    """cpu counts milli-units, all else whole units; parts are rounded up, absurd values saturate."""
    assert resource_value(resource, text) == value


@pytest.mark.parametrize("text", ["", "x", "1x", "1ki", "1 Gi", "Gi", "nan", "inf", "1e", "--1", "1_0", "٣"])
def test_what_is_no_quantity_is_an_error(text: str) -> None:
    with pytest.raises(QuantityError):
        resource_value("cpu", text)


@given(RESOURCES, st.integers(MIN, MAX))
def test_formatting_loses_nothing(resource: str, value: int) -> None:
    """The canonical text of a value parses to that value."""
    assert resource_value(resource, format_value(resource, value)) == value


@given(RESOURCES, st.integers(0, 10**12), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi"]))
def test_canonical_text_is_a_fixed_point(resource: str, number: int, suffix: str) -> None:
    """Formatting what was parsed from a formatted text changes nothing."""
    value = resource_value(resource, f"{number}{suffix}")
    text = format_value(resource, value)

    assert format_value(resource, resource_value(resource, text)) == text


@given(st.decimals(-(10**9), 10**9, places=3))
def test_order_is_kept(number: Decimal) -> None:
    """A larger quantity is never a smaller integer."""
    assert parse(str(number)) == number
    assert resource_value("cpu", str(number)) <= resource_value("cpu", str(number + 1))


def test_quantities_of_any_length_are_refused_in_one_pass() -> None:
    """A pattern that tries every way to cut the digits would take hours."""
    with pytest.raises(QuantityError):
        parse("1" * 500_000 + "x")
