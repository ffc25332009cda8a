"""`python -m services.variant_controller`: variants and their parents."""

import os

from sluice import telemetry
from sluice.core.variants import VariantController
from sluice.log.config import SettingError, load_prefixed, refuse
from sluice.log.service import run_service

from .config import Config

NAME = "variant_controller"


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    try:
        load_prefixed(os.environ, "VARIANT_CONTROLLER_", Config)
    except SettingError as error:
        refuse(NAME, error)
    run_service(NAME, VariantController(), telemetry=telemetry.start)


if __name__ == "__main__":
    main()
