"""`python -m services.variant_controller`: variants and their parents."""

import os
import sys

import msgspec

from sluice import telemetry
from sluice.core.variants import VariantController
from sluice.log.config import load_prefixed
from sluice.log.service import run_service

from .config import Config

NAME = "variant_controller"


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    try:
        load_prefixed(os.environ, "VARIANT_CONTROLLER_", Config)
    except msgspec.ValidationError as error:
        sys.exit(f"{NAME}: configuration: {error}")
    run_service(NAME, VariantController(), telemetry=telemetry.start)


if __name__ == "__main__":
    main()
