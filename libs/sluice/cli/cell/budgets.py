"""Standings of budgets: asked of the budget check itself, which judges by the same numbers."""

from collections.abc import Sequence
from typing import Any

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.cli.kit.columns import dig
from sluice.cli.kit.columns_checks import UNKNOWN
from sluice.cli.kit.columns_checks import budget_amount as amount
from sluice.cli.kit.describe_format import Lines, field
from sluice.cli.kit.table import Column, Object, render
from sluice.log.errors import EventLogError

from .client import Api

SUBJECT = "query.budgets"
ANSWER_S = 2.0


async def add_standings(api: Api, items: Sequence[Object]) -> None:
    """Put how each Budget among *items* stands into its `status`; none is known where no check runs."""
    budgets = [obj for obj in items if obj.get("kind") == "Budget"]
    if not budgets:
        return
    found = {one.get("name"): one for one in await _ask(api)}
    for obj in budgets:
        standing = found.get(obj["metadata"]["name"])
        if standing is not None:
            obj["status"] = {key: value for key, value in standing.items() if key != "name"}


async def _ask(api: Api) -> list[dict[str, Any]]:
    name = f"sluice.{api.target.cell}.{SUBJECT}"
    try:
        reply = await api.connection.request(name, b"{}", timeout_s=ANSWER_S)
        return list(msgspec.json.decode(reply.payload, type=dict[str, Any]).get("budgets", ()))
    except (EventLogError, ConnectionError, TimeoutError, *UNREADABLE):
        return []


_LIMITS: Sequence[Column[Object]] = (
    Column("LIMIT", lambda limit: amount(limit, "limit")),
    Column("USED", lambda limit: amount(limit, "used")),
    Column("COMMITTED", lambda limit: amount(limit, "committed")),
    Column("LEFT", lambda limit: amount(limit, "left")),
)


def standing_lines(obj: Object) -> Lines:
    """Return how a budget stands in its present period."""
    status = obj.get("status")
    if not status:
        text = "<unknown>: the budget check did not answer; is it running? (`sluice check list`)"
        return [field("Standing", text)]
    if status.get("problem"):
        return [field("Standing", f"cannot be judged by: {status['problem']}"), *_held(status)]
    return [
        field("Period ends", status.get("periodEnds", UNKNOWN)),
        field("Used up", "yes" if status.get("usedUp") else "no"),
        *_held(status),
        "Limits:",
        *("  " + line for line in render(dig(status, "limits", default=[]), _LIMITS)),
    ]


def _held(status: Object) -> Lines:
    return [field("Workloads held", status.get("held", 0))]
