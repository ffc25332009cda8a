"""Which services answer, and what they say of themselves (the NATS services API)."""

from typing import Any

import msgspec

from sluice.api.errors import UNREADABLE

from .client import Api

PREFIX = "sluice-"
FIRST_ANSWER_S = 1.0
SILENCE_S = 0.15
"""Replicas answer within milliseconds of each other."""


async def services(api: Api) -> list[dict[str, Any]]:
    """Return what every replica of the cell's services says, by service, leaders first.

    `service`, `instance`, `pid`, `role`, `upto`, `own`, `lag`, and counters where it has them.
    """
    told = await api.answers("$SRV.STATS", FIRST_ANSWER_S, SILENCE_S)
    found = [entry for data in told if (entry := _entry(data, api.target.cell)) is not None]
    return sorted(
        found, key=lambda e: (str(e["service"]), e.get("role") != "leader", str(e.get("instance", "")))
    )


def _entry(data: bytes, cell: str) -> dict[str, Any] | None:
    """Return one replica's entry, None when the answer is not of this cell."""
    try:
        stats = msgspec.json.decode(data, type=dict[str, Any])
    except UNREADABLE:
        return None
    name = str(stats.get("name", ""))
    metadata = stats.get("metadata")
    if not name.startswith(PREFIX) or not isinstance(metadata, dict) or metadata.get("cell") != cell:
        return None
    entry: dict[str, Any] = {"service": name.removeprefix(PREFIX), "role": "serving", **metadata}
    for endpoint in stats.get("endpoints") or ():
        said = endpoint.get("data")
        if isinstance(said, dict):
            entry |= said
            break
    entry["service"] = str(entry["service"]).replace("_", "-")
    return entry
