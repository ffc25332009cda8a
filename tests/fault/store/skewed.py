"""`python -m tests.fault.store.skewed`: the scheduler on a machine whose clock can be set.

FAULT_CLOCK names a file with the seconds that it is ahead.
"""

import os
import time
from pathlib import Path
from unittest.mock import patch

from sluice.core.scheduler.decider import Scheduler
from sluice.services.common.decider import run_decider

if __name__ == "__main__":
    ahead, true_time = Path(os.environ["FAULT_CLOCK"]), time.time_ns
    with patch("time.time_ns", lambda: true_time() + int(ahead.read_text() or 0) * 1_000_000_000):
        run_decider("scheduler", Scheduler())
