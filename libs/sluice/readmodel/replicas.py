"""Replicas of a cell's services, by their own account, as the NATS services API passes it on."""

from collections.abc import Iterable
from typing import Any

import msgspec

from sluice.api.errors import UNREADABLE

PREFIX = "sluice-"


def told(answers: Iterable[bytes], cell: str) -> list[dict[str, Any]]:
    """Return what every replica of the cell's services says, by service, leaders first.

    `service`, `instance`, `pid`, `role`, `upto`, `own`, `lag`, and counters where it has them.
    """
    found = [entry for data in answers if (entry := _entry(data, cell)) is not None]
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
