"""A real cluster of three NATS servers on the loopback interface, for tests.

`nats_cluster` is one per module: use a cell of your own per test.
"""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.local.server import find_binary
from sluice.log.contract import MAX_PAYLOAD
from sluice.log.errors import EventLogError, StaleSequenceError
from sluice.log.nats.jetstream import JetStreamLog
from tests.support.waiting import eventually

SERVERS = 3


class Cluster:
    """Servers with JetStream; `urls` has one for each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        ports = _free_ports(2 * SERVERS)
        self.ports, self._routes = ports[:SERVERS], ports[SERVERS:]
        self.urls = [f"nats://127.0.0.1:{port}" for port in self.ports]
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._routes)
        for number, (port, route) in enumerate(zip(self.ports, self._routes, strict=True)):
            directory = self.directory / f"n{number}"
            directory.mkdir(parents=True, exist_ok=True)
            config = directory / "nats-server.conf"
            config.write_text(f"""
server_name: "n{number}"
listen: "127.0.0.1:{port}"
log_file: "{directory / "nats-server.log"}"
max_payload: {MAX_PAYLOAD}
max_pending: {32 * MAX_PAYLOAD}
jetstream {{ store_dir: "{directory / "jetstream"}" }}
cluster {{ name: "test", listen: "127.0.0.1:{route}", routes: [{routes}] }}
""")
            self._processes.append(self._begun(number))

    def _begun(self, number: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [find_binary(os.environ), "-c", self.directory / f"n{number}" / "nats-server.conf"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def start_one(self, number: int) -> None:
        """Start server *number* again, where it was killed."""
        self._processes[number].wait()
        self._processes[number] = self._begun(number)

    def store(self, number: int) -> Path:
        """Where server *number* keeps its streams."""
        return self.directory / f"n{number}" / "jetstream"

    def kill_one(self, number: int) -> None:
        """End server *number* as a crash would; it stays away."""
        self._processes[number].kill()

    def stop(self) -> None:
        """End all servers in order; `start_one` begins them again."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()

    def pause_one(self, number: int) -> None:
        """Let server *number* fall silent without closing a connection, as one does that loses its power."""
        process = self._processes[number]
        process.send_signal(signal.SIGSTOP)
        # Until the last of its threads has stopped it may answer what was asked in the meantime.
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume_one(self, number: int) -> None:
        self._processes[number].send_signal(signal.SIGCONT)

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    async def log(self, cell: str, *, server: int = 0, replicas: int = SERVERS) -> JetStreamLog:
        """Return the log of a cell, made if need be; waits until the servers know of each other and of it."""

        async def opened() -> JetStreamLog | None:
            log = JetStreamLog(self.urls[server], cell, replicas=replicas)
            try:
                await log.open(5.0)
                await log.append("scheduler", b"{}", expected_last=1_000_000)
            except StaleSequenceError:
                return log
            except (EventLogError, ConnectionError, TimeoutError):
                await log.close()
            return None

        found = await eventually(opened)
        assert isinstance(found, JetStreamLog)
        return found


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


@pytest.fixture(scope="module")
def nats_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.kill()
