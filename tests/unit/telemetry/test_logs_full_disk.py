"""What is said while the disk is full is lost, and nothing else."""

import io
import logging
from collections.abc import Iterator

import pytest
import structlog

from sluice.telemetry.logs import configure_logs


class Full(io.StringIO):
    def write(self, _: str) -> int:
        raise OSError(28, "No space left on device")

    def flush(self) -> None:
        raise OSError(28, "No space left on device")


@pytest.fixture
def logs() -> Iterator[None]:
    before, handlers = structlog.get_config(), list(logging.root.handlers)
    yield
    structlog.configure(**before)
    structlog.contextvars.clear_contextvars()
    logging.root.handlers[:] = handlers


@pytest.mark.usefixtures("logs")
def test_full_disk_ends_nobody() -> None:
    configure_logs("test", "1", {}, Full())
    structlog.get_logger("full").warning("said")
