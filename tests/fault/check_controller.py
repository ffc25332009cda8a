"""A controller of one check in a fault run: `python -m tests.fault.check_controller NAME`.

What it answers depends on workload and attempt alone, so that whoever asks again after a crash hears the
same: mostly Ready, now and then Retry or nothing at all, and Rejected for jobs that are doomed.
"""

import asyncio
import sys
import zlib
from typing import Any

from sluice.sdk.checks import Controller, Ready, Rejected, Request, Retry, Verdict

DOOMED = 17
"""Every so manieth job is rejected by the last check."""
RETRIES = 12
"""Chance, in percent, that a check is to be tried again."""
MOST_RETRIES = 3
MUTE = range(50, 53)
"""Chances, in percent, of a first attempt that is never answered."""


def controller_name(check: str) -> str:
    return f"example.com/{check}"


def doomed(job: str) -> bool:
    """Tell whether a job is to be rejected, by the number at the end of its name."""
    return int(job.rpartition("-")[2]) % DOOMED == 0


def _chance(check: str, uid: str, attempt: int) -> int:
    return zlib.crc32(f"{uid}/{check}/{attempt}".encode()) % 100


def _retries(chance: int, attempt: int) -> bool:
    return chance < RETRIES and attempt <= MOST_RETRIES


def _rejects(check: str, job: str) -> bool:
    return check == "c" and doomed(job)


def approves(check: str, uid: str, job: str, attempt: int) -> bool:
    """Tell whether the controller of *check* says Ready to an attempt of a workload, or would if it spoke."""
    return not _rejects(check, job) and not _retries(_chance(check, uid, attempt), attempt)


def make(check: str) -> Controller:
    app = Controller(controller_name(check))

    @app.check
    async def answer(request: Request[Any]) -> Verdict:
        chance = _chance(check, request.workload.uid, request.attempt)
        await asyncio.sleep(chance / 1000)
        if _rejects(check, request.workload.job):
            return Rejected(message="doomed")
        if chance in MUTE and request.attempt == 1:
            await asyncio.Event().wait()
        if _retries(chance, request.attempt):
            return Retry(after=1, message="not yet")
        return Ready()

    return app


if __name__ == "__main__":
    make(sys.argv[1]).run()
