"""The toy decider as a process: `python -m tests.integration.log.bank_service`."""

import os

from sluice import telemetry
from sluice.log.runtime.service import run_service
from tests.integration.log.bank import Accounts, Bank

if __name__ == "__main__":
    run_service(
        "bank",
        Bank(),
        projections=[Accounts()],
        telemetry=telemetry.start,
        lease=os.environ.get("BANK_LEASE", ""),
    )
