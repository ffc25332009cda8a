"""Real servers for tests: free ports, file storage in a directory of the test's own.

    async def test_something(nats_server):
        connection = await nats.connect(nats_server.url)

`nats_server` is one per test, `class_nats_server` one per class, `module_nats_server` one per module
(use a cell of your own per test there).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.local.server import EmbeddedServer

__all__ = ["class_nats_server", "module_nats_server", "nats_server"]


def _serve(directory: Path) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(directory, name="sluice-test")
    server.start()
    try:
        yield server
    finally:
        # Nothing of a test is looked at afterwards, so there is nothing to shut down in order.
        server.kill()


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server of this test's own; `.url`, `.kill()`, `.start()`, `.restart()` (same address)."""
    yield from _serve(tmp_path / "nats")


@pytest.fixture(scope="class")
def class_nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    yield from _serve(tmp_path_factory.mktemp("nats"))


@pytest.fixture(scope="module")
def module_nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    yield from _serve(tmp_path_factory.mktemp("nats"))
