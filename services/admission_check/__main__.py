"""`python -m services.admission_check`: what admission checks are asked, and what they answer."""

import os
from collections.abc import Awaitable, Callable
from typing import Any

from sluice import telemetry
from sluice.core.checks import AdmissionChecks
from sluice.log.config import SettingError, load_prefixed, refuse
from sluice.log.service import Shell, run_service

from .config import Config
from .presence import watcher
from .requests import Requests

NAME = "admission_check"


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    try:
        config = load_prefixed(os.environ, "ADMISSION_CHECK_", Config)
    except SettingError as error:
        refuse(NAME, error)
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
