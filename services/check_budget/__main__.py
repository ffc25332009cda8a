"""`python -m sluice.services.check_budget`: holds workloads whose budget is used up."""

from sluice.services.common.check import run_check

from .app import make
from .config import Config

if __name__ == "__main__":
    run_check("check_budget", Config, make)
