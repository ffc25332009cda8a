"""A controller for tests: does what a workload's label `do` says, and keeps a record of what it did.

`python -m tests.integration.checks.app`: name CHECK_NAME, record CHECK_RECORD, and a file CHECK_GATE that
lets functions end which wait.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from sluice.sdk.checks import (
    Controller,
    Pending,
    PodSetUpdate,
    Ready,
    Rejected,
    Request,
    Retry,
    Settings,
    Verdict,
)

BIG = 9 << 20


def make(name: str, record: Path, gate: Path, settings: Settings | None = None) -> Controller:
    """Return the controller."""
    app = Controller(name, settings=settings or Settings(ttl_s=1, drain_s=5, backoff_s=0.2))

    def note(request: Request[Any], what: str) -> None:
        with record.open("a") as lines:
            lines.write(f"{what} {request.name} {request.attempt} {os.getpid()}\n")

    @app.check
    async def check(request: Request[Any]) -> Verdict:
        note(request, "begin")
        try:
            return await act(request)
        finally:
            note(request, "end")

    async def act(request: Request[Any]) -> Verdict:
        match request.workload.labels.get("do", "ready"):
            case "wait":
                # Another process opens it.
                while not gate.exists():  # noqa: ASYNC110, ASYNC240
                    await asyncio.sleep(0.02)
            case "raise-once" if request.memory.setdefault("calls", 0) == 0:
                request.memory["calls"] = 1
                raise RuntimeError("out of paper")
            case "retry":
                return Retry(7, "later")
            case "reject":
                return Rejected("never")
            case "pending":
                return Pending("hold on", 3600)
            case "watched":
                return Ready(recheck_after=3600)
            case "big-message":
                return Rejected("x" * BIG)
            case "big-updates":
                return Ready((PodSetUpdate(name="main", annotations={"x": "y" * BIG}),))
        return Ready()

    @check.on_stop
    async def stopped(request: Request[Any]) -> None:
        note(request, "stop")

    return app


if __name__ == "__main__":
    make(os.environ["CHECK_NAME"], Path(os.environ["CHECK_RECORD"]), Path(os.environ["CHECK_GATE"])).run()
