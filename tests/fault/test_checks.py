"""A short fault run of checks: controllers and services are killed. `make fault` has the long one."""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.support.system import System

from .checks import check_plan
from .run import ENV, run

pytestmark = [pytest.mark.nats, pytest.mark.long, pytest.mark.timeout(400)]


async def test_every_job_has_one_end_whoever_is_killed(tmp_path: Path) -> None:
    """One outcome each; no verdict counts after an eviction; nothing waits for ever, answered or not."""
    deck = {"kill controller": 4, "kill one": 3, "lose checks": 1}
    seed = random.randrange(10**6)
    few: dict[str, Any] = {"damaged": ("admission_check",), "apis": 1, "whole": False}
    plan = check_plan(7, seed, least=0, deck=deck, jobs=24, most=36, pause_s=0.4, **few)
    told = [f"seed {plan.seed}"]
    with System(tmp_path, env=ENV) as system:
        report = await run(system, plan, told.append)
        shown = "\n".join([*told, *report.lines, system.tail_logs(5) if report.findings.any() else ""])
    assert not report.findings.any(), f"{report.findings}\n{shown}"
    assert report.kills >= plan.kills
    assert report.jobs >= plan.jobs
