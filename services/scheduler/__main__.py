"""`python -m services.scheduler`: the only writer of quota."""

import os

from sluice import telemetry
from sluice.core.scheduler import Scheduler
from sluice.log.config import SettingError, load_prefixed, refuse
from sluice.log.service import run_service

from .config import Config

NAME = "scheduler"


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    try:
        load_prefixed(os.environ, "SCHEDULER_", Config)
    except SettingError as error:
        refuse(NAME, error)
    run_service(NAME, Scheduler(), telemetry=telemetry.start)


if __name__ == "__main__":
    main()
