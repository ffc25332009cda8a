"""`python -m sluice.services.scheduler`: the only writer of quota."""

from sluice.core.scheduler.decider import Scheduler
from sluice.services.common.decider import run_decider

if __name__ == "__main__":
    run_decider("scheduler", Scheduler())
