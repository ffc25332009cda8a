"""A short run of faults of the store; `make fault-store` is the long one."""

from pathlib import Path

import pytest

from .store.cell import StoreSystem
from .store.run import SHORT, run

pytestmark = [pytest.mark.nats, pytest.mark.long, pytest.mark.timeout(400)]


async def test_nothing_is_lost_and_nothing_runs_twice(tmp_path: Path) -> None:
    """On three servers, with executors behind proxies: every job ends once, and decisions come out again."""
    told: list[str] = []
    with StoreSystem(tmp_path) as system:
        system.begin(1)
        report = await run(system, SHORT, seed=1, tell=told.append)
        shown = "\n".join([*told, system.tail_logs(5) if report.any else ""])
    assert not report.any, f"{report}\n{shown}"
    assert report.jobs > 10
