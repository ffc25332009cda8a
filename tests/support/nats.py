"""A real server for each test: a free port, file storage in a directory of the test's own.

async def test_something(nats_server):
    connection = await nats.connect(nats_server.url)
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.local.server import EmbeddedServer


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server of this test's own; `.url`, `.kill()`, `.start()`, `.restart()` (same address)."""
    server = EmbeddedServer(tmp_path / "nats", name="sluice-test")
    server.start()
    try:
        yield server
    finally:
        # Nothing of a test is looked at afterwards, so there is nothing to shut down in order.
        server.kill()
