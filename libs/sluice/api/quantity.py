"""Kubernetes quantities as integers (G3): cpu in milli-units, everything else in whole units.

Values saturate at 64 bits, as Kueue's do, so that absurd manifests stay comparable.
"""

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

Quantity = int | float | str
"""A quantity as written in a manifest. Floats occur only there; they are read by their decimal text."""

MAX = 2**63 - 1
MIN = -(2**63)
MAX_LENGTH = 64
"""Characters of a quantity that users may write: three times what any value within 64 bits needs.

Longer ones are refused where manifests are checked. Those of older logs can be read.
"""

_SUFFIX: dict[str, Decimal] = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12),
    "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
    "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip


_QUANTITY = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([numkMGTPEKi]*)|([eE][+-]?[0-9]{1,3}))")
_TOO_LARGE = 20
"""Decimal exponent from which a value saturates anyway; no need to write it out."""


class QuantityError(ValueError):
    """The text is no Kubernetes quantity."""


def saturate(value: int) -> int:
    """Clamp to the signed 64-bit range.

    >>> saturate(2**70) == MAX
    True
    """
    return MAX if value > MAX else MIN if value < MIN else value


def parse(quantity: Quantity) -> Decimal:
    """Return the exact value in whole units.

    >>> parse("1500m"), parse("1.5Ki")
    (Decimal('1.500'), Decimal('1536.0'))

    Raises:
        QuantityError: not a quantity.
    """
    text = str(quantity)
    found = _QUANTITY.fullmatch(text)
    if found is None or (found[2] or "") not in _SUFFIX:
        raise QuantityError(f"{text!r} is no quantity: want a number with an optional suffix like m, k, Gi")
    return Decimal(found[1] + (found[3] or "")) * _SUFFIX[found[2] or ""]


@lru_cache(maxsize=4096)
def resource_value(resource: str, quantity: Quantity) -> int:
    """Return *quantity* of *resource* as an integer: milli-units for cpu, else whole units, rounded up.

    >>> resource_value("cpu", "1.5"), resource_value("memory", "1.5Gi"), resource_value("nvidia.com/gpu", 8)
    (1500, 1610612736, 8)

    Raises:
        QuantityError: not a quantity.
    """
    value = parse(quantity)
    if value.adjusted() > _TOO_LARGE:
        return MAX if value > 0 else MIN
    if resource == "cpu":
        value *= 1000
    return saturate(int(value.to_integral_value(rounding=ROUND_CEILING)))


@lru_cache(maxsize=4096)
def format_value(resource: str, value: int) -> str:
    """Return the canonical text of an integer *value* of *resource*: the largest suffix that loses nothing.

    cpu is decimal (`"1500m"`, `"2"`), memory and storage binary (`"4Gi"`), all else decimal (`"5k"`).

    >>> format_value("cpu", 1500), format_value("memory", 1610612736), format_value("nvidia.com/gpu", 5000)
    ('1500m', '1536Mi', '5k')
    """
    if value == 0:
        return "0"
    if resource == "cpu":
        return f"{value}m" if value % 1000 else _decimal(value // 1000)
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return _binary(value)
    return _decimal(value)


def _decimal(value: int) -> str:
    for exponent, suffix in ((18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if value % 10**exponent == 0:
            return f"{value // 10**exponent}{suffix}"
    return str(value)


def _binary(value: int) -> str:
    for exponent, suffix in ((60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if value % 2**exponent == 0:
            return f"{value // 2**exponent}{suffix}"
    return str(value)
