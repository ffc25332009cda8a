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
from contextlib import closing, contextmanager
from typing import Any

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.log.errors import LogUnavailableError
from sluice.log.nats.blocking_connection import BlockingConnection
from sluice.log.nats.jetstream_api import message_request, stored
from sluice.log.nats.protocol import Frame, ProtocolError, addresses, publish_frame, status_of, with_files

TIMEOUT_S = 3.0
READY_ROLES = ("leader", "standby", "serving")

Answer = tuple[bool, str]
"""Whether it is well, and why."""


class ServerAwayError(Exception):
    """No server answers, so nothing can be said about the service."""


@contextmanager
def _connected(env: Mapping[str, str], deadline: float) -> Iterator[BlockingConnection]:
    urls = env.get("SLUICE_NATS_URL") or env.get("NATS_URL") or "nats://127.0.0.1:4222"
    urls = with_files(urls, env.get("SLUICE_CREDENTIALS"), env.get("SLUICE_CA"))
    why = "no server"
    for url in urls.split(","):
        try:
            (server,) = addresses(url)
            link = BlockingConnection(server, "sluice-probe", max(0.01, deadline - time.monotonic()))
        except (OSError, ProtocolError, ValueError) as error:
            why = f"{error or type(error).__name__}"
            continue
        with closing(link):
            yield link
        return
    raise ServerAwayError(why)


def _answers(link: BlockingConnection, subject: str, deadline: float) -> Iterator[Frame]:
    """Yield answers until the deadline, or until the server says that nobody listens."""
    link.send(publish_frame(subject, b"", f"{link.inbox}.answer", {}))
    while True:
        try:
            frames = link.frames(max(0.01, deadline - time.monotonic()))
        except TimeoutError:
            return
        for frame in frames:
            if frame.header and status_of(frame.header) == 503:
                return
            yield frame


def is_mine(instance: str, env: Mapping[str, str], host: str) -> bool:
    """Tell whether a replica that calls itself *instance* runs in this container."""
    if given := env.get("SLUICE_INSTANCE"):
        return instance == given
    # As `sluice.log.runtime.config` makes the name: host, process, chance.
    plain = "".join(c if c.isalnum() else "-" for c in host)
    return instance.startswith((f"{plain}-", f"{host}-"))


def _service(env: Mapping[str, str], *, ready: bool) -> Answer:
    cell, host = env.get("SLUICE_CELL") or "main", socket.gethostname()
    deadline = time.monotonic() + TIMEOUT_S
    with _connected(env, deadline) as link:
        for frame in _answers(link, "$SRV.STATS", deadline):
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
    subject, body = message_request(f"KV_{bucket}", last_of=f"$KV.{bucket}.agent.{key_token(name)}")
    with _connected(env, time.monotonic() + TIMEOUT_S) as link:
        try:
            found = stored(link.ask(subject, body), bucket)
        except LogUnavailableError:
            found = None
    # A heartbeat that has expired or was taken back leaves a marker, which has no data.
    if found is not None and found.payload:
        return True, f"agent {name}: has a heartbeat"
    return False, f"agent {name}: no heartbeat"


def _decoded(payload: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(payload)
    except UNREADABLE:
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
