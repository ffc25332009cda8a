"""Is the service in this container well? For health checks of containers.

    python -m sluice.log.runtime.healthcheck          alive: it answers, or no restart would help
    python -m sluice.log.runtime.healthcheck --ready    ready: it has caught up with the log
    python -m sluice.log.runtime.healthcheck --agent    the agent of this machine has a heartbeat

Exit code 0 for yes, 1 for no, with one line that says why. It reads the same variables as the service
(SLUICE_NATS_URL, SLUICE_CELL, SLUICE_INSTANCE, AGENT_NAME), and finds its replica among all that answer by
SLUICE_INSTANCE, else by the host's name. One blocking socket: a probe runs often and must cost little.
"""

import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from sluice.log.nats.protocol import Frame, Parser, ProtocolError, parse_info, publish_frame, status_of

TIMEOUT_S = 3.0
READY_ROLES = ("leader", "standby", "serving")

_INBOX = f"_INBOX.probe{os.getpid():x}{time.time_ns() & 0xFFFFFFFF:x}"

Answer = tuple[bool, str]
"""Whether it is well, and why."""


class ServerAwayError(Exception):
    """No server answers, so nothing can be said about the service."""


class _Client:
    """A blocking connection with one subscription, for a few requests."""

    def __init__(self, url: str, deadline: float) -> None:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        host, port = parts.hostname or "127.0.0.1", parts.port or 4222
        self._deadline = deadline
        self._parser = Parser()
        self._socket = socket.create_connection((host, port), TIMEOUT_S)
        info = parse_info(self._control())
        if parts.scheme == "tls" or info.tls_required:
            import ssl

            self._socket = ssl.create_default_context().wrap_socket(self._socket, server_hostname=host)
        options: dict[str, object] = {
            "verbose": False,
            "pedantic": False,
            "lang": "python-sluice",
            "version": "1",
            "protocol": 1,
            "headers": True,
            "no_responders": True,
            "name": "sluice-probe",
        }
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if password:
            options |= {"user": user, "pass": password}
        elif user:
            options["auth_token"] = user
        self._socket.sendall(
            b"CONNECT %s\r\nSUB %s 1\r\nPING\r\n" % (msgspec.json.encode(options), _INBOX.encode())
        )
        while (line := self._control()) != b"PONG":
            if line.startswith(b"-ERR"):
                raise ServerAwayError(line.decode(errors="replace"))

    def _receive(self) -> list[Frame]:
        self._socket.settimeout(max(0.01, self._deadline - time.monotonic()))
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        return self._parser.feed(data)

    def _control(self) -> bytes:
        while not self._parser.control:
            self._receive()
        return self._parser.control.pop(0)

    def ask(self, subject: str, payload: bytes = b"") -> Iterator[Frame]:
        """Yield answers until the deadline, or until the server says that nobody listens."""
        self._socket.sendall(publish_frame(subject, payload, _INBOX, {}))
        while True:
            try:
                frames = self._receive()
            except TimeoutError:
                return
            for frame in frames:
                if frame.header and status_of(frame.header) == 503:
                    return
                yield frame

    def close(self) -> None:
        self._socket.close()


def _connect(env: Mapping[str, str], deadline: float) -> _Client:
    urls = env.get("SLUICE_NATS_URL") or env.get("NATS_URL") or "nats://127.0.0.1:4222"
    why = "no server"
    for url in urls.split(","):
        try:
            return _Client(url.strip(), deadline)
        except (OSError, ProtocolError, ServerAwayError, msgspec.DecodeError) as error:
            why = f"{error or type(error).__name__}"
    raise ServerAwayError(why)


def is_mine(instance: str, env: Mapping[str, str], host: str) -> bool:
    """Tell whether a replica that calls itself *instance* runs in this container."""
    if given := env.get("SLUICE_INSTANCE"):
        return instance == given
    # As `sluice.log.runtime.config` makes the name: host, process, chance.
    plain = "".join(c if c.isalnum() else "-" for c in host)
    return instance.startswith((f"{plain}-", f"{host}-"))


def _service(env: Mapping[str, str], *, ready: bool) -> Answer:
    cell, host = env.get("SLUICE_CELL") or "main", socket.gethostname()
    with closing(_connect(env, time.monotonic() + TIMEOUT_S)) as client:
        for frame in client.ask("$SRV.STATS"):
            stats = _decoded(frame.payload)
            metadata = stats.get("metadata") or {}
            if metadata.get("cell") != cell or not is_mine(str(metadata.get("instance", "")), env, host):
                continue
            said: dict[str, Any] = {}
            for endpoint in stats.get("endpoints") or ():
                said |= endpoint.get("data") or {}
            role = str(said.get("role", "serving"))
            line = f"{stats.get('name')}: {role}, at {said.get('upto', '?')}, {said.get('lag', '?')} behind"
            return (not ready or role in READY_ROLES), line
    return False, "the service of this container does not answer"


def _agent(env: Mapping[str, str]) -> Answer:
    # Imported here: other probes need none of the manifests behind it.
    from sluice.protocol.dispatch import key_token

    bucket = f"sluice_{env.get('SLUICE_CELL') or 'main'}_heartbeats"
    name = env.get("AGENT_NAME") or socket.gethostname()
    body = msgspec.json.encode({"last_by_subj": f"$KV.{bucket}.agent.{key_token(name)}"})
    with closing(_connect(env, time.monotonic() + TIMEOUT_S)) as client:
        for frame in client.ask(f"$JS.API.STREAM.MSG.GET.KV_{bucket}", body):
            answer = _decoded(frame.payload)
            # A heartbeat that has expired or was taken back leaves a marker, which has no data.
            if (answer.get("message") or {}).get("data"):
                return True, f"agent {name}: has a heartbeat"
            break
    return False, f"agent {name}: no heartbeat"


def _decoded(payload: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(payload)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def probe(arguments: Sequence[str], env: Mapping[str, str]) -> Answer:
    """Return whether the service of this container is well."""
    ready = "--ready" in arguments
    try:
        return _agent(env) if "--agent" in arguments else _service(env, ready=ready)
    except (ServerAwayError, OSError, ProtocolError) as error:
        return not ready, f"the server is away: {error}"


def main() -> None:
    """Print one line, and exit 0 or 1."""
    unknown = [word for word in sys.argv[1:] if word not in ("--ready", "--agent")]
    if unknown:
        print(f"probe: unknown option {unknown[0]}", file=sys.stderr)
        sys.exit(2)
    well, line = probe(sys.argv[1:], os.environ)
    print(line)
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
