"""`python -m services.scheduler`: the only writer of quota."""

import os
import sys

import msgspec

from sluice import telemetry
from sluice.core.scheduler import Scheduler
from sluice.log.config import load_prefixed
from sluice.log.service import run_service

from .config import Config

NAME = "scheduler"


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    try:
        load_prefixed(os.environ, "SCHEDULER_", Config)
    except msgspec.ValidationError as error:
        sys.exit(f"{NAME}: configuration: {error}")
    run_service(NAME, Scheduler(), telemetry=telemetry.start)


if __name__ == "__main__":
    main()
