"""Fixtures of the tests of controllers."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Tracebacks in colour take half a second each."""
    with structlog.testing.capture_logs():
        yield
