"""The toy service on a machine whose clock can be set: BANK_CLOCK names a file with the seconds ahead."""

import os
import time
from pathlib import Path
from unittest.mock import patch

from sluice import telemetry
from sluice.log.runtime.service import run_service
from tests.integration.log import bank

if __name__ == "__main__":
    ahead, true_time = Path(os.environ["BANK_CLOCK"]), time.time_ns
    bank.INTEREST_US = 3_000_000
    with patch("time.time_ns", lambda: true_time() + int(ahead.read_text() or 0) * 1_000_000_000):
        run_service("bank", bank.Bank(), telemetry=telemetry.start)
