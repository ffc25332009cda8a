"""`python -m sluice.services.scheduler`: the only writer of quota."""

from sluice import telemetry
from sluice.core.scheduler.decider import Scheduler
from sluice.log.runtime.config import load_own
from sluice.log.runtime.service import run_service

from .config import Config

NAME = "scheduler"


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    load_own(NAME, Config)
    run_service(NAME, Scheduler(), telemetry=telemetry.start)


if __name__ == "__main__":
    main()
