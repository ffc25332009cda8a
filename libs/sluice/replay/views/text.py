"""Values and checks on one line."""

from typing import Any


def remark(text: str | None) -> str:
    """Return what is to be appended to say *text* too, '' for nothing."""
    return f": {text}" if text else ""


def check_line(check: dict[str, Any]) -> str:
    """Return whether an admission check is active, and who waits for it."""
    active = check["active"]
    word = (
        "nobody has said whether it is active" if active == "Unknown" else "active" if active else "inactive"
    )
    waiting = check["waiting"]
    many = f"; {len(waiting)} workloads wait for it" if len(waiting) > 1 else ""
    one = f"; {waiting[0]} waits for it" if len(waiting) == 1 else ""
    return f"{word}{remark(check.get('inactive'))}{many}{one}"


def plain_text(value: Any) -> str:
    """Return a value on one line; what is empty or missing as a dash."""
    if value is None or value in ("", [], {}):
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{k}={plain_text(v)}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(map(plain_text, value))
    return str(value)
