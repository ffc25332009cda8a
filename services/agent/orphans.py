"""Orphans of an agent's earlier life: processes that it left running, and directories that nobody needs."""

import asyncio
import contextlib
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import structlog

from sluice.local.process_start import end_all, same_process
from sluice.sdk import Outcome

from .files import OWNER, RESULT
from .process import PidFile, signal_group

log = structlog.get_logger("sluice.agent")


def _pid_files(work_dir: Path) -> Iterator[tuple[Path, PidFile]]:
    for path in sorted(work_dir.glob("*/*/*/*.pid")):
        try:
            yield path, msgspec.json.decode(path.read_bytes(), type=PidFile)
        except (OSError, msgspec.DecodeError):
            # Cut short by the crash: written after the start, so `strays` finds the process.
            path.unlink(missing_ok=True)


def is_running(record: PidFile) -> bool:
    """Tell whether the very process of *record* is alive."""
    return same_process(record.pid, record.started) is not None


def strays(**marks: str) -> list[psutil.Process]:
    """Return processes whose environment has all these SLUICE_* variables: they began as pods, or in pods."""
    found = []
    for process in psutil.process_iter():
        try:
            env = process.environ()
        except (psutil.Error, OSError):
            continue
        if all(env.get(f"SLUICE_{name.upper()}") == value for name, value in marks.items()):
            found.append(process)
    return found


async def end_orphans(agent: str, work_dir: Path, grace_s: float) -> int:
    """TERM what an earlier life left, KILL it after *grace_s*; returns how many processes there were."""
    records, left = _running(agent, work_dir)
    for record in records:
        signal_group(record.pid, signal.SIGTERM)
    await asyncio.to_thread(end_all, left.values(), grace_s)
    for record in records:
        signal_group(record.pid, signal.SIGKILL)
    for path, _ in _pid_files(work_dir):
        path.unlink(missing_ok=True)
    if left:
        log.warning("ended processes of an earlier life", count=len(left))
    return len(left)


def kill_all(agent: str, work_dir: Path) -> None:
    """KILL all pods of an agent that lives, and may not come to do so; it finds them ended."""
    records, left = _running(agent, work_dir)
    for record in records:
        signal_group(record.pid, signal.SIGKILL)
    end_all(left.values(), 0.0)


def _running(agent: str, work_dir: Path) -> tuple[list[PidFile], dict[int, psutil.Process]]:
    """Return the pods that run, and all processes of pods by pid."""
    records = [record for _, record in _pid_files(work_dir) if is_running(record)]
    left = {process.pid: process for process in strays(agent=agent, work_dir=str(work_dir))}
    for record in records:
        with contextlib.suppress(psutil.NoSuchProcess):
            left.setdefault(record.pid, psutil.Process(record.pid))
    return records, left


def earlier_outcome(directory: Path, uid: str) -> Outcome | None:
    """Return how an attempt of the job's incarnation *uid* ended, if its agent lived to see it."""
    try:
        if (directory / OWNER).read_text() != uid:
            return None
        return msgspec.json.decode((directory / RESULT).read_bytes(), type=Outcome)
    except (OSError, msgspec.DecodeError):
        return None


def remove_old(work_dir: Path, keep_s: float) -> int:
    """Remove directories of attempts that ended more than *keep_s* seconds ago; returns how many."""
    removed = 0
    now = time.time()
    for directory in work_dir.glob("*/*/*"):
        try:
            old = now - directory.stat().st_mtime > keep_s
        except OSError:
            continue
        if old and directory.is_dir() and not any(directory.glob("*.pid")):
            shutil.rmtree(directory, ignore_errors=True)
            removed += 1
    return removed
