"""`python -m sluice.services.dispatcher`: places jobs of this cell in other cells (decision 0044)."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from sluice import telemetry
from sluice.core.dispatch.decider import Dispatcher
from sluice.log.runtime.config import load_own
from sluice.log.runtime.service import Shell, run_service

from .config import Config
from .dispatching import Dispatching


def main() -> None:
    dispatching = Dispatching(Path(load_own("dispatcher", Config).links))

    async def setup(shell: Shell[Any]) -> Callable[[], Awaitable[None]] | None:
        dispatching.log = shell.log
        dispatching.settled_now = lambda: shell.runner.settled
        dispatching.failed = shell.stop
        return None

    run_service("dispatcher", Dispatcher(), hooks=[dispatching], setup=setup, telemetry=telemetry.start)


if __name__ == "__main__":
    main()
