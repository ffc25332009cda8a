"""The NATS protocol as bytes, without input or output: one parser for the live and the bulk reader.

Only what a client of JetStream needs. A general client makes an object with parsed headers of every
message; here a message stays five slices of the receive buffer.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

__all__ = [
    "Address",
    "Frame",
    "Parser",
    "ProtocolError",
    "ServerInfo",
    "addresses",
    "delivery_parts",
    "description_of",
    "headers_of",
    "parse_info",
    "publish_frame",
    "status_of",
]


class Frame(NamedTuple):
    """One message. `header` is the raw block, b"" if there is none."""

    subject: bytes
    sid: bytes
    reply: bytes
    header: bytes
    payload: bytes


class ProtocolError(ConnectionError):
    """The other side does not speak the protocol of NATS."""


class Parser:
    """Cuts a stream of bytes into frames and control lines."""

    __slots__ = ("_chunks", "_have", "_need", "control")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._have = 0
        # Bytes below which looking again is in vain: a message of megabytes comes in many chunks.
        self._need = 0
        self.control: list[bytes] = []
        """Lines that are no messages (INFO, PING, PONG, -ERR), for the caller to take and clear."""

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that *data* completes, in order."""
        if self._chunks:
            self._chunks.append(data)
            self._have += len(data)
            if self._have < self._need:
                return []
            data = b"".join(self._chunks)
            self._chunks.clear()
        frames: list[Frame] = []
        # Not Frame(...): that is a call into Python per message, and this is the hottest loop there is.
        add, find, make = frames.append, data.find, tuple.__new__
        position, size, need = 0, len(data), 0
        while position < size:
            line_end = find(b"\r\n", position)
            if line_end < 0:
                if size - position > 1 << 20:
                    raise ProtocolError("a line of more than 1 MiB")
                break
            first = data[position]
            start = line_end + 2
            if first == 72:  # HMSG <subject> <sid> [reply] <header bytes> <total bytes>
                parts = data[position:line_end].split(b" ")
                body = start + int(parts[-2])
                end = start + int(parts[-1])
                if end + 2 > size:
                    need = end + 2 - position
                    break
                reply = parts[3] if len(parts) == 6 else b""
                add(make(Frame, (parts[1], parts[2], reply, data[start:body], data[body:end])))
                position = end + 2
            elif first == 77:  # MSG <subject> <sid> [reply] <bytes>
                parts = data[position:line_end].split(b" ")
                end = start + int(parts[-1])
                if end + 2 > size:
                    need = end + 2 - position
                    break
                reply = parts[3] if len(parts) == 5 else b""
                add(make(Frame, (parts[1], parts[2], reply, b"", data[start:end])))
                position = end + 2
            else:
                self.control.append(data[position:line_end])
                position = start
        if position < size:
            rest = data[position:] if position else data
            self._chunks.append(rest)
            self._have, self._need = len(rest), need
        return frames


def status_of(header: bytes) -> int:
    """Return the status in a header block (`NATS/1.0 404 No Messages`), 0 if it has none."""
    code = header[9:12]
    return int(code) if code.isdigit() else 0


def description_of(header: bytes) -> str:
    """Return the words after the status."""
    return header[12 : header.find(b"\r\n")].decode(errors="replace").strip()


def headers_of(header: bytes) -> dict[str, str]:
    """Return the fields of a header block."""
    fields: dict[str, str] = {}
    for line in header.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            fields[name.decode(errors="replace")] = value.strip().decode(errors="replace")
    return fields


def publish_frame(subject: str, payload: bytes, reply: str, headers: Mapping[str, str]) -> bytes:
    """Return the bytes that publish a message."""
    if not headers:
        return b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), reply.encode(), len(payload), payload)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    block = f"NATS/1.0\r\n{lines}\r\n".encode()
    sizes = len(block), len(block) + len(payload)
    return b"HPUB %s %s %d %d\r\n%s%s\r\n" % (subject.encode(), reply.encode(), *sizes, block, payload)


class ServerInfo(msgspec.Struct, frozen=True):
    """What of the server's INFO matters here."""

    server_name: str = ""
    version: str = ""
    max_payload: int = 1_048_576
    headers: bool = False
    tls_required: bool = False
    nonce: str = ""


def parse_info(line: bytes) -> ServerInfo:
    """Return the INFO that a server greets with."""
    if not line.startswith(b"INFO "):
        raise ProtocolError(f"expected INFO, got {line[:80]!r}")
    return msgspec.json.decode(line[5:], type=ServerInfo)


class Address(msgspec.Struct, frozen=True):
    """Where a server is, and how to log in."""

    host: str
    port: int
    tls: bool = False
    user: str = ""
    password: str = ""

    def connect_line(self, name: str) -> bytes:
        options: dict[str, Any] = {
            "verbose": False,
            "pedantic": False,
            "lang": "python-sluice",
            "version": "1",
            "protocol": 1,
            "headers": True,
            "no_responders": True,
            "echo": True,
            "name": name,
            "tls_required": self.tls,
        }
        if self.password:
            options |= {"user": self.user, "pass": self.password}
        elif self.user:
            options["auth_token"] = self.user
        return b"CONNECT %s\r\n" % msgspec.json.encode(options)


def addresses(urls: str) -> list[Address]:
    """Return the servers in *urls*: `nats://[user:password@]host[:port]`, several separated by commas.

    `tls://` asks for encryption; a user without password is a token.
    """
    found = []
    for url in urls.split(","):
        text = url.strip()
        parts = urlsplit(text if "://" in text else f"nats://{text}")
        if parts.scheme not in ("nats", "tls") or not parts.hostname:
            raise ValueError(f"{url!r}: expected nats://host:port or tls://host:port")
        found.append(
            Address(
                host=parts.hostname,
                port=parts.port or 4222,
                tls=parts.scheme == "tls",
                user=unquote(parts.username or ""),
                password=unquote(parts.password or ""),
            )
        )
    return found


def delivery_parts(reply: bytes) -> list[bytes]:
    """Return where a message came from, as JetStream writes it into the reply subject.

    `$JS.ACK.<stream>.<consumer>.<tries>.<seq>.<number>.<time>.<pending>`, in nine parts; newer servers
    may put domain and account before the stream, and a token behind.
    """
    parts = reply.split(b".")
    if len(parts) == 9:
        return parts
    if len(parts) >= 11:
        return parts[:2] + parts[4:11]
    raise ProtocolError(f"not a delivery of JetStream: {reply!r}")
