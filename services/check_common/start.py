"""How a shipped check starts: its own configuration, then the controller's."""

import os
from collections.abc import Callable

import msgspec

from sluice.log.config import SettingError, load_prefixed, refuse
from sluice.sdk.checks import Controller


def run_check[C: msgspec.Struct](
    name: str, prefix: str, kind: type[C], make: Callable[[C], Controller]
) -> None:
    """Run until SIGTERM or SIGINT; exits with 0 in order, 2 for a bad setting."""
    try:
        app = make(load_prefixed(os.environ, prefix, kind))
    except SettingError as error:
        refuse(name, error)
    app.run()
