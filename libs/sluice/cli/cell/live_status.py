"""Live parts of objects, beyond what the log says: asked of whoever knows, when they are shown."""

from collections.abc import Sequence

from sluice.cli.kit.table import Object

from .agents import add_heartbeats
from .budgets import add_standings
from .client import Api


async def add_live(api: Api, items: Sequence[Object]) -> None:
    """Complete the `status` of budgets and agents among *items*."""
    await add_standings(api, items)
    await add_heartbeats(api, items)
