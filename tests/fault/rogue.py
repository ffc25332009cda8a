"""`python -m tests.fault.rogue scheduler`: lead by a lease of one's own, beside the real leader."""

import functools
import importlib
import sys
from typing import Any

from sluice.log.runtime.service import run_service


def main(name: str) -> None:
    service: Any = importlib.import_module(f"sluice.services.{name}.__main__")
    service.run_service = functools.partial(run_service, lease=f"{name}-rogue")
    service.main()


if __name__ == "__main__":
    main(sys.argv[1])
