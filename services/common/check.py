"""Start of a shipped check: its own configuration, then the controller's."""

from collections.abc import Callable

import msgspec

from sluice.log.runtime.config import load_own
from sluice.sdk.checks import Controller


def run_check[C: msgspec.Struct](name: str, kind: type[C], make: Callable[[C], Controller]) -> None:
    """Run until SIGTERM or SIGINT; exits with 0 in order, 2 for a bad setting."""
    make(load_own(name, kind)).run()
