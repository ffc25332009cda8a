"""`python -m tests.fault.rogue scheduler`: lead by a lease of one's own, beside the real leader."""

import functools
import runpy
import sys
from typing import Any

from sluice.services.common import decider


def main(name: str) -> None:
    shell: Any = decider
    shell.run_service = functools.partial(shell.run_service, lease=f"{name}-rogue")
    runpy.run_module(f"sluice.services.{name}", run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1])
