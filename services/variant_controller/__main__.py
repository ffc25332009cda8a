"""`python -m sluice.services.variant_controller`: variants and their parents."""

from sluice import telemetry
from sluice.core.variants.decider import VariantController
from sluice.log.runtime.config import load_own
from sluice.log.runtime.service import run_service

from .config import Config

NAME = "variant_controller"


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    load_own(NAME, Config)
    run_service(NAME, VariantController(), telemetry=telemetry.start)


if __name__ == "__main__":
    main()
