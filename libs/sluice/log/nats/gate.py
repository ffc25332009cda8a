"""Subjects on which a party asks JetStream: its account has none, and what is imported there leads to the
gate."""

from typing import Any

API, GATED = "$JS.API.", "$JS.sluice.API."

_NO_JETSTREAM = 10039
"""Code of what the server answers in an account without JetStream."""


def is_gated(answer: dict[str, Any]) -> bool:
    """Tell of an answer of JetStream's API whether the gate is to be asked instead."""
    return (answer.get("error") or {}).get("err_code") == _NO_JETSTREAM


def to_gate(subject: str) -> str:
    """Return where a party sends what others send to *subject*."""
    return GATED + subject.removeprefix(API) if subject.startswith(API) else subject
