"""`python -m sluice.services.check_provisioning`: asks a capacity provider for what workloads need."""

from sluice.services.common.check import run_check

from .app import make
from .config import Config

if __name__ == "__main__":
    run_check("check_provisioning", Config, make)
