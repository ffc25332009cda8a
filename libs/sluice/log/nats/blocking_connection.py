"""A connection for those without an event loop: requests, and the frames of one subscription."""

import secrets
import socket
from typing import Any

import msgspec

from sluice.log.errors import LogUnavailableError

from .gate import is_gated, to_gate
from .protocol import Address, Frame, Parser, parse_info, publish_frame, status_of

__all__ = ["BlockingConnection"]

RECEIVE_BYTES = 1 << 20


class BlockingConnection:
    """Connected and logged in; subscribed to what comes under its `inbox`.

    Raises:
        OSError, ProtocolError: the server cannot be reached, refuses, or is silent for *timeout_s*; also of
            every method.
    """

    def __init__(self, server: Address, name: str, timeout_s: float) -> None:
        self._socket = socket.create_connection((server.host, server.port), timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._parser = Parser()
        self._frames: list[Frame] = []
        self._gated = False
        self.inbox = f"_INBOX.{secrets.token_hex(10)}"
        info = parse_info(self._line())
        if server.tls or info.tls_required:
            self._socket = server.tls_context().wrap_socket(self._socket, server_hostname=server.host)
        self.send(server.connect_line(name, info.nonce) + b"SUB %s.* 1\r\nPING\r\n" % self.inbox.encode())
        while (line := self._line()) != b"PONG":
            if line.startswith(b"-ERR"):
                raise ConnectionRefusedError(line.decode(errors="replace"))

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def _line(self) -> bytes:
        while not self._parser.control:
            self._frames += self._parser.feed(self._received())
        return self._parser.control.pop(0)

    def _received(self) -> bytes:
        data = self._socket.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        return data

    def frames(self, timeout_s: float | None = None) -> list[Frame]:
        """Return the next frames; answers the server's pings. *timeout_s*: from now on, for each."""
        if timeout_s is not None:
            self._socket.settimeout(timeout_s)
        while not self._frames:
            self._frames = self._parser.feed(self._received())
            for line in self._parser.control:
                if line == b"PING":
                    self.send(b"PONG\r\n")
                elif line.startswith(b"-ERR"):
                    raise ConnectionResetError(line.decode(errors="replace"))
            self._parser.control.clear()
        frames, self._frames = self._frames, []
        return frames

    def ask(self, subject: str, body: object = None) -> dict[str, Any]:
        """Ask JetStream's API and return its JSON answer, errors included; nothing else may be under way.

        Raises:
            LogUnavailableError: nobody answers there.
        """
        payload = b"" if body is None else msgspec.json.encode(body)
        self.publish(subject, payload, f"{self.inbox}.ask")
        (frame,) = self.frames()
        if frame.header and status_of(frame.header) == 503:
            self._gated = False
            raise LogUnavailableError(f"{subject}: nobody answers")
        answer: dict[str, Any] = msgspec.json.decode(frame.payload)
        if not self._gated and is_gated(answer):
            self._gated = True
            return self.ask(subject, body)
        return answer

    def publish(self, subject: str, payload: bytes, reply: str = "") -> None:
        """Send a message; to JetStream by way of the gate, if `ask` has found one."""
        self.send(publish_frame(to_gate(subject) if self._gated else subject, payload, reply, {}))

    def close(self) -> None:
        self._socket.close()
