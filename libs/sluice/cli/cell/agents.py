"""Heartbeats of agents beside their objects: the log says only that they have come or gone."""

import asyncio
from collections.abc import Sequence

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.cli.kit.table import Object
from sluice.events.job import OnLoss
from sluice.log.errors import EventLogError
from sluice.log.nats import jetstream_api
from sluice.protocol.dispatch import Heartbeat, key_token
from sluice.protocol.subjects import Cell

from .client import Api

ANSWER_S = 2.0
AT_ONCE = 64

_DECODER = msgspec.json.Decoder(Heartbeat)


async def add_heartbeats(api: Api, items: Sequence[Object]) -> None:
    """Put flavors, host, capacity and `onLoss` of each Agent among *items* that is there into its `status`.

    Without a heartbeat to read, `flavors` is missing: nobody knows.
    """
    agents = [obj for obj in items if obj.get("kind") == "Agent"]
    for begin in range(0, len(agents), AT_ONCE):
        some = agents[begin : begin + AT_ONCE]
        for obj, beat in zip(some, await asyncio.gather(*(_beat(api, obj) for obj in some)), strict=True):
            status = obj.setdefault("status", {})
            if beat is not None:
                status |= {"flavors": list(beat.flavors), "host": beat.host, "capacity": beat.capacity}
                status |= {"heartbeat": True, "lease": beat.lease, "kinds": list(beat.kinds)}
                if beat.on_loss is not None:
                    status["onLoss"] = on_loss(beat.on_loss)
            elif not status.get("flavors"):
                status.pop("flavors", None)


def on_loss(wish: OnLoss) -> Object:
    """Return what is to become of an agent's jobs as `status.onLoss` has it."""
    return {"policy": wish.policy} | ({"afterSeconds": wish.after_s} if wish.policy == "Requeue" else {})


async def _beat(api: Api, obj: Object) -> Heartbeat | None:
    bucket = Cell(api.target.cell).bucket("heartbeats")
    subject = f"$KV.{bucket}.agent.{key_token(obj['metadata']['name'])}"
    try:
        found = await jetstream_api.message(
            api.connection, f"KV_{bucket}", last_of=subject, timeout_s=ANSWER_S
        )
        return _DECODER.decode(found.payload) if found is not None and found.payload else None
    except (EventLogError, ConnectionError, TimeoutError, *UNREADABLE):
        return None
