"""Durations as people type them."""

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def parse(text: str) -> float:
    """Return the seconds that *text* says: `90`, `1m30s`, `1.5h`, `250ms`.

    Raises:
        ValueError: no duration; the message names the expected form.
    """
    text = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration: want something like 90s, 1m30s or 2h")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
