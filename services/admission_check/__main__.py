"""`python -m sluice.services.admission_check`: what admission checks are asked, and what they answer."""

from collections.abc import Awaitable, Callable
from typing import Any

from sluice import telemetry
from sluice.core.checks.decider import AdmissionChecks
from sluice.log.runtime.config import load_own
from sluice.log.runtime.service import Shell, run_service

from .config import Config
from .presence import watcher
from .requests import Requests

NAME = "admission_check"


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    config = load_own(NAME, Config)
    presence = watcher(config)

    async def setup(shell: Shell[Any]) -> Callable[[], Awaitable[None]] | None:
        presence.target = shell.log
        return None

    run_service(
        NAME,
        AdmissionChecks(),
        projections=[Requests()],
        hooks=[presence],
        setup=setup,
        telemetry=telemetry.start,
    )


if __name__ == "__main__":
    main()
