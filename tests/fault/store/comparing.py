"""What the log says, and whether deciding it again comes to the same."""

from collections.abc import Sequence
from typing import Any

from sluice.core.checks.decider import AdmissionChecks
from sluice.core.scheduler.decider import Scheduler
from sluice.core.slices.decider import SliceAggregator
from sluice.core.variants.decider import VariantController
from sluice.log.contract import Entry
from sluice.sdk import AsyncClient
from tests.support.verify import entries_for, verify

DECIDERS: tuple[type[Any], ...] = (SliceAggregator, Scheduler, VariantController, AdmissionChecks)


async def whole_log(client: AsyncClient) -> list[Entry]:
    return [entry async for batch in client.log.read(1, [">"]) for entry in batch]


def divergent(entries: Sequence[Entry], *, settled: bool = True) -> list[str]:
    """Decide the whole log again. *settled*: nothing may be left to decide at its end."""
    found = []
    for kind in DECIDERS:
        verdict = verify(kind(), entries_for(kind(), entries))
        if verdict.divergence is not None:
            found.append(f"{kind.__name__}: {verdict.divergence}")
        if settled and verdict.unsettled:
            found.append(f"{kind.__name__}: would go on to decide {verdict.unsettled[:3]}")
    return found
