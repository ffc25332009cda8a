"""`python -m sluice.services.check_webhook`: asks HTTP endpoints whether workloads may run."""

from sluice.services.common.check import run_check

from .app import make
from .config import Config

if __name__ == "__main__":
    run_check("check_webhook", Config, make)
