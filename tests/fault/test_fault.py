"""A short fault run: one of each fault. `make fault` is the long one."""

import random
from pathlib import Path

import pytest

from tests.support.system import System

from .chaos import DECK
from .run import ENV, Plan, run
from .staff import OF_STAFF

pytestmark = [pytest.mark.nats, pytest.mark.long, pytest.mark.timeout(400)]

LONG_ONES = (
    "kill leader and server",
    *(fault for fault in OF_STAFF if "long" in fault),
    "pause server",
    "forget snapshots",
)
SHORT = dict.fromkeys(DECK, 1) | {"kill leader": 2} | dict.fromkeys(LONG_ONES, 0)


async def test_nothing_is_lost_whatever_is_killed(tmp_path: Path) -> None:
    """Every job ends once, nothing is decided twice, and all states are what the log makes of them."""
    # Take-overs are measured by the long run; a machine busy with other tests says little about them.
    plan = Plan(kills=8, seed=random.randrange(10**6), least=0, deck=SHORT, pause_s=0.3, take_over_s=6.0)
    told = [f"seed {plan.seed}"]
    with System(tmp_path, env=ENV) as system:
        report = await run(system, plan, told.append)
        shown = "\n".join([*told, *report.lines, system.tail_logs(5) if report.findings.any() else ""])
    assert not report.findings.any(), f"{report.findings}\n{shown}"
    assert report.kills >= 8
