"""A short fault run of checks: controllers and services are killed. `make fault` has the long one."""

import random
from pathlib import Path

import pytest

from tests.system import System

from .checks import CheckPlan, run
from .run import ENV

pytestmark = [pytest.mark.nats, pytest.mark.timeout(400)]


async def test_every_job_has_one_end_whoever_is_killed(tmp_path: Path) -> None:
    """One outcome each; no verdict counts after an eviction; nothing waits for ever, answered or not."""
    plan = CheckPlan(kills=7, jobs=24, most=36, seed=random.randrange(10**6), pause_s=0.4)
    told = [f"seed {plan.seed}"]
    with System(tmp_path, env=ENV) as system:
        report = await run(system, plan, told.append)
        shown = "\n".join([*told, *report.lines, system.tail_logs(5) if report.findings.any() else ""])
    assert not report.findings.any(), f"{report.findings}\n{shown}"
    assert report.kills >= plan.kills
    assert report.jobs >= plan.jobs
