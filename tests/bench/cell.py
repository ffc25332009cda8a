"""A fresh cell for a benchmark: server, services, and a look at their logs when it goes wrong."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.system import System

SERVICES = ("api", "slice_aggregator", "variant_controller", "scheduler", "admission_check")


@contextmanager
def fresh_cell(*services: str, env: Mapping[str, str] | None = None) -> Iterator[System]:
    """Yield a cell in a directory of its own, with one process of each of *services*: by default all."""
    with (
        tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder,
        System(Path(folder), env={"SLUICE_LOG_LEVEL": "warning", **(env or {})}) as system,
    ):
        for name in services or SERVICES:
            system.start(name)
        try:
            yield system
        except BaseException:
            print(system.tail_logs())
            raise
