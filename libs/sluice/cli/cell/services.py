"""Services that answer, and their own account of themselves (the NATS services API)."""

from typing import Any

from sluice.readmodel import replicas

from .client import Api

FIRST_ANSWER_S = 1.0
SILENCE_S = 0.15
"""Replicas answer within milliseconds of each other."""


async def services(api: Api) -> list[dict[str, Any]]:
    """Return what every replica of the cell's services says, see `replicas.told`."""
    return replicas.told(await api.answers("$SRV.STATS", FIRST_ANSWER_S, SILENCE_S), api.target.cell)
