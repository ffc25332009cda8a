"""A controller whose check is instant, and that notes when it had its requests: for `check_requests`."""

import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from sluice.sdk.checks import Controller, Ready, Request, Verdict

NAME = "bench.example.com/instant"

app = Controller(NAME)
calls: list[float] = []


@app.check
async def instant(request: Request[Any]) -> Verdict:  # noqa: ARG001
    calls.append(time.time())
    return Ready()


@app.lifespan
async def noted(_: Controller) -> AsyncIterator[None]:
    began = time.time()
    yield
    _write({"began": began, "first": calls[0], "last": calls[-1], "calls": len(calls)})


def _write(figures: dict[str, float]) -> None:
    Path(os.environ["BENCH_NOTES"]).write_text(json.dumps(figures))


if __name__ == "__main__":
    app.run()
