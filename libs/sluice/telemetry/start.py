"""One call that sets up logs, metrics and traces of a process."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from .logs import configure_logs
from .meters import Counted, Series

__all__ = ["Telemetry", "start"]

EXPORTERS = ("none", "memory", "console", "otlp")


class Telemetry(Protocol):
    """What `start` returns."""

    def observe(self, metrics: Counted) -> None:
        """Export the numbers of a runner."""
        ...

    def count(self, totals: Callable[[], Iterable[Series]], metrics: Sequence[tuple[str, str, str]]) -> None:
        """Export totals that *totals* gives when asked; *metrics* are the name, unit and text of each."""
        ...

    def close(self) -> None:
        """Export what is left; at the end of the process."""
        ...


class Silent:
    """Telemetry that exports nothing: no provider is installed, instruments and spans do nothing."""

    def observe(self, metrics: Counted) -> None:
        pass

    def count(self, totals: Callable[[], Iterable[Series]], metrics: Sequence[tuple[str, str, str]]) -> None:
        pass

    def close(self) -> None:
        pass


def start(service: str, instance: str = "", env: Mapping[str, str] | None = None) -> Telemetry:
    """Set up logs, metrics and traces from SLUICE_LOG_LEVEL, SLUICE_LOG_FORMAT and SLUICE_OTEL.

    SLUICE_OTEL: none (default), memory, console or otlp (see `exporting.ProcessTelemetry`).

    Raises:
        ValueError: a variable has a value that is not known; names it.
    """
    env = os.environ if env is None else env
    instance = instance or str(os.getpid())
    configure_logs(service, instance, env)
    exporter = env.get("SLUICE_OTEL", "none").lower()
    if exporter not in EXPORTERS:
        raise ValueError(f"SLUICE_OTEL={exporter!r}: expected one of {', '.join(EXPORTERS)}")
    if exporter == "none":
        return Silent()
    # The SDK takes a tenth of a second to import.
    from .exporting import ProcessTelemetry

    telemetry = ProcessTelemetry(service, instance, exporter)
    telemetry.install()
    return telemetry
