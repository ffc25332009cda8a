"""The wire contract of links to worker cells: what `schema` puts into proto/ for them."""

from typing import Any

from sluice.events.base import JobKey, WorkloadKey
from sluice.events.codec import CONTENT_TYPE, encode_message
from sluice.events.job import JobEvent
from sluice.protocol.cells import Fact, LinkDown, LinkUp, RemoteReport

FAMILY = "cell"
TYPES: tuple[type[JobEvent], ...] = (RemoteReport, LinkUp, LinkDown)

_AT = 1_767_225_600_000_000
_OFFER = JobKey("team-a/train-0f3b9c2d41")


def examples() -> dict[str, bytes]:
    """Return golden messages by name."""
    facts = (
        Fact(
            kind="Present",
            job=_OFFER,
            seq=815,
            at=_AT,
            workload=WorkloadKey("team-a/job-train-0f3b9c2d41-3f9c1"),
            uid="00000000-0000-bc55-8000-000000000001",
        ),
        Fact(kind="Held", job=_OFFER, seq=817, at=_AT, attempt=1),
    )
    found: tuple[JobEvent, ...] = (
        RemoteReport(after=812, upto=820, facts=facts),
        LinkUp(),
        LinkDown(message="no answer for 5 s"),
    )
    return {type(data).__name__: _message(data) for data in found}


def _message(data: JobEvent) -> bytes:
    return encode_message(
        message_id="west.820",
        source="sluice/link/west",
        event_type=type(data).__name__,
        subject="west",
        at=_AT,
        data=data,
    )


def channels(cell: str, cloud_event: Any) -> dict[str, Any]:
    """Return the channel; *cloud_event*: makes the schema of a CloudEvent from type and data."""
    return {
        "cell": {
            "address": "sluice.{cell}.cell.{name}",
            "description": "What the dispatcher's link to a worker cell says, in the manager's log.",
            "parameters": {"cell": {"default": cell}, "name": {}},
            "messages": {
                kind.__name__: {
                    "contentType": CONTENT_TYPE,
                    "payload": cloud_event(
                        kind.__name__, {"$ref": f"./schema/{FAMILY}.json#/$defs/{kind.__name__}"}
                    ),
                }
                for kind in TYPES
            },
        }
    }


def operations() -> dict[str, Any]:
    """Return the operations on the channel."""
    return {"report-cell": {"action": "send", "channel": {"$ref": "#/channels/cell"}}}
