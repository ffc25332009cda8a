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
MOST_RETRIES = 3
MUTE = range(50, 53)
"""Chances, in percent, of a first attempt that is never answered."""


def controller_name(check: str) -> str:
    return f"example.com/{check}"


def doomed(job: str) -> bool:
    """Tell whether a job is to be rejected, by the number at the end of its name."""
    return int(job.rpartition("-")[2]) % DOOMED == 0


def make(check: str) -> Controller:
    app = Controller(controller_name(check))

    @app.check
    async def answer(request: Request[Any]) -> Verdict:
        chance = zlib.crc32(f"{request.workload.uid}/{check}/{request.attempt}".encode()) % 100
        await asyncio.sleep(chance / 1000)
        if check == "c" and doomed(request.workload.job):
            return Rejected(message="doomed")
        if chance in MUTE and request.attempt == 1:
            await asyncio.Event().wait()
        if chance < 12 and request.attempt <= MOST_RETRIES:
            return Retry(after=1, message="not yet")
        return Ready()

    return app


if __name__ == "__main__":
    make(sys.argv[1]).run()
