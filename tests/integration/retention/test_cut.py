"""The log is cut behind a verified base, on a real server, and killed at every step of it."""

import asyncio
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sluice.core.scheduler.decider import Scheduler
from sluice.local.server import EmbeddedServer
from sluice.log.runtime.bases import NoBaseError
from sluice.replay.source.live import LiveSource
from sluice.replay.source.time_travel import RangeError, fold_at
from sluice.retention.archive import Archive
from sluice.retention.cycle import Report, round_of
from sluice.retention.errors import ArchiveError, NotVerifiedError
from sluice.retention.live import opened
from sluice.retention.policy import RetentionPolicy
from sluice.retention.stores import Directory
from tests.support.nats import nats_server

from .played import Played

__all__ = ["nats_server"]
pytestmark = pytest.mark.nats

NOW = time.time_ns() // 1000 + 3_600_000_000


@pytest.fixture
def played(nats_server: EmbeddedServer, tmp_path: Path) -> Played:
    return Played(nats_server.url, tmp_path)


async def _round(played: Played, most: int) -> Report:
    async with opened(played.url, "main") as cell:
        policy = RetentionPolicy(max_bytes=most, keep_s=0)
        archive = Archive(Directory(played.archive), "main")
        return await round_of(cell, archive, policy, NOW, without_api=True)


def one_round(played: Played, share: float = 0.5) -> Report:
    """Let at most so great a share of the log stay."""

    async def size() -> int:
        async with opened(played.url, "main") as cell:
            return await cell.size()

    return asyncio.run(_round(played, int(asyncio.run(size()) * share)))


def test_cut_log_says_the_same(played: Played) -> None:
    """Half of it goes, then half of the rest: behind bases, of which the second begins with the first."""
    before = played.live()

    first, second = one_round(played), one_round(played)

    assert (before.first, before.end) == (1, played.end)
    assert 1 < first.first < second.first
    assert first.cut == first.first - 1
    assert played.live().first == second.first
    played.nothing_lost()
    played.same(played.with_archive())


def test_questions_of_before_are_told_where_to_ask(played: Played) -> None:
    report = one_round(played)

    with pytest.raises(RangeError, match=rf"has {report.first} to .*; what was before .* --archive"):
        fold_at(played.live(), Scheduler(), 3)
    asked = fold_at(played.with_archive(), Scheduler(), 3)
    assert asked.upto <= 3


@pytest.mark.parametrize("step", range(1, 10))
def test_killed_at_any_step_nothing_is_lost(played: Played, step: int) -> None:
    """SIGKILL behind the n-th step; the next round goes on from what there is."""
    size = 60_000
    command = [sys.executable, "-m", "tests.integration.retention.killed_round"]
    killed = subprocess.run(
        [*command, played.url, str(played.archive), str(size), str(step)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    played.nothing_lost()
    report = one_round(played)
    assert report.first > 1
    played.nothing_lost()


def test_server_killed_while_it_cuts(played: Played, nats_server: EmbeddedServer) -> None:
    """The server dies right behind the request: the cut is there, or it is not, or a part of it."""

    async def cut_and_kill() -> None:
        async with opened(played.url, "main") as cell:
            asking = asyncio.create_task(cell.keep_from(report.first + 20))
            await asyncio.sleep(0)
            nats_server.kill()
            asking.cancel()

    report = one_round(played, 0.7)
    asyncio.run(cut_and_kill())
    nats_server.start()

    live = LiveSource(nats_server.url, "main")
    assert report.first <= live.first <= report.first + 20


def test_only_what_the_archive_has_goes(played: Played) -> None:
    """A damaged file is found before its messages go, and so is an archive of another log."""
    one_round(played, 0.7)
    before = played.live().first
    (path,) = sorted(played.archive.glob("segment-*.slog"))[:1]
    good = path.read_bytes()
    path.write_bytes(good[:-200] + bytes([good[-200] ^ 1]) + good[-199:])

    with pytest.raises((ArchiveError, NotVerifiedError), match=r"damaged|checksum"):
        one_round(played, 0.4)
    assert played.live().first == before

    path.write_bytes(good)
    shutil.rmtree(played.archive)
    with pytest.raises(ArchiveError, match="what was before is in another archive"):
        one_round(played, 0.4)
    assert played.live().first == before


def test_a_base_that_is_lost_is_said(played: Played) -> None:
    """A log that was cut, and no base: nobody begins with an empty state."""
    one_round(played)
    live = LiveSource(played.url, "main")

    with pytest.raises(NoBaseError, match="sluice log restore"):
        fold_at(live, Scheduler(), live.end)
