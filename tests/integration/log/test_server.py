"""The embedded server: one per directory, found again after any end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import nats
import pytest

from sluice.local.server import EmbeddedServer, find_binary, running, stop_running
from sluice.log.errors import AlreadyRunningError, ServerError

pytestmark = pytest.mark.nats


async def test_serves_jetstream_with_large_messages(nats_server):
    """A started server has JetStream and takes messages of 8 MiB."""
    client = await nats.connect(nats_server.url)

    info = await client.jetstream().account_info()

    assert info.streams == 0
    assert client.max_payload == 8 * 1024 * 1024
    await client.close()


def test_second_start_names_the_first(nats_server):
    """A second start in the same directory says where the first one is, and leaves it alone."""
    with pytest.raises(AlreadyRunningError) as caught:
        EmbeddedServer(nats_server.directory).start()

    assert (caught.value.url, caught.value.pid) == (nats_server.url, nats_server.pid)
    assert running(nats_server.directory) == nats_server.state


def test_stale_state_does_not_hinder(nats_server):
    """After a crash the next start works and keeps the address."""
    url = nats_server.url
    nats_server.kill()

    assert running(nats_server.directory) is None
    assert nats_server.start().url == url


def test_state_of_another_live_process_does_not_hinder(nats_server):
    """A state file whose pid now belongs to some other process is not taken for a server."""
    nats_server.stop()
    path = nats_server.directory / "server.json"
    path.write_bytes(path.read_bytes().replace(b'"pid":%d' % nats_server.pid, b'"pid":%d' % os.getpid()))

    assert running(nats_server.directory) is None
    nats_server.start()


def test_outlives_its_starter(tmp_path: Path):
    """A server goes on when the process that started it is killed; another process finds and stops it."""
    code = (
        "import os,sys,pathlib; from sluice.local.server import EmbeddedServer;"
        f"s=EmbeddedServer(pathlib.Path({str(tmp_path)!r})); s.start();"
        "print(s.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert child.returncode == -signal.SIGKILL

    state = running(tmp_path)
    assert state is not None
    assert state.pid == int(child.stdout)
    assert stop_running(tmp_path) == state
    assert running(tmp_path) is None


def test_failed_start_quotes_the_log(nats_server, tmp_path: Path):
    """A port that is taken is named in the error."""
    with pytest.raises(ServerError, match="address already in use"):
        EmbeddedServer(tmp_path / "other", port=nats_server.state.port).start()


def test_given_binary_must_exist():
    with pytest.raises(ServerError, match="SLUICE_NATS_SERVER=/nowhere"):
        find_binary({"SLUICE_NATS_SERVER": "/nowhere"})
