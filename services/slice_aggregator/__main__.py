"""`python -m sluice.services.slice_aggregator`: jobs in, workloads out, job state back."""

from collections.abc import Awaitable, Callable
from typing import Any

from sluice import telemetry
from sluice.core.slices.decider import SliceAggregator
from sluice.log.runtime.config import load_own
from sluice.log.runtime.service import Shell, run_service

from .config import Config
from .dispatch import Dispatch
from .presence import watcher

NAME = "slice_aggregator"


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    config = load_own(NAME, Config)
    presence = watcher(config)

    async def setup(shell: Shell[Any]) -> Callable[[], Awaitable[None]] | None:
        presence.target = shell.log
        return None

    run_service(
        NAME,
        SliceAggregator(),
        projections=[Dispatch()],
        hooks=[presence],
        setup=setup,
        telemetry=telemetry.start,
    )


if __name__ == "__main__":
    main()
