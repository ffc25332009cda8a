"""The NATS protocol as bytes, without input or output: one parser for the live and the bulk reader.

Only what a client of JetStream needs. A general client makes an object with parsed headers of every
message; here a message stays five slices of the receive buffer.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import msgspec

if TYPE_CHECKING:
    import ssl

__all__ = [
    "Frame",
    "ProtocolError",
    "addresses",
    "header_block",
    "headers_of",
    "publish_frame",
    "shown",
    "status_of",
    "with_files",
]


_LOGIN = re.compile(r"(?<=//)[^/,]*@|(?<![^,])[^@/,]*@")


_QUERY = re.compile(r"\?[^,]*")


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


def header_block(headers: Mapping[str, str]) -> bytes:
    """Return the fields as a header block."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()


def publish_frame(subject: str, payload: bytes, reply: str, headers: Mapping[str, str]) -> bytes:
    """Return the bytes that publish a message."""
    if not headers:
        return b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), reply.encode(), len(payload), payload)
    block = header_block(headers)
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
    credentials: str = ""
    """File with the seed of an NKey. It is read for each connection, so a new one counts from the next on."""
    ca: str = ""
    """File with the authorities that vouch for the server; by default those of the system."""

    def tls_context(self) -> "ssl.SSLContext":
        """Return how the server is known.

        Raises:
            OSError: the file of authorities cannot be read.
        """
        import ssl

        return ssl.create_default_context(cafile=self.ca or None)

    def proof(self, nonce: str) -> tuple[str, str]:
        """Return public key and signature, as the server wants them.

        Raises:
            OSError, ValueError: there is no seed in the file.
        """
        from .nkeys import public_of, read_seed, sign

        seed = read_seed(self.credentials)
        return public_of(seed), sign(seed, nonce)

    def connect_line(self, name: str, nonce: str = "") -> bytes:
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
        if self.credentials:
            options["nkey"], options["sig"] = self.proof(nonce)
        elif self.password:
            options |= {"user": self.user, "pass": self.password}
        elif self.user:
            options["auth_token"] = self.user
        return b"CONNECT %s\r\n" % msgspec.json.encode(options)


def addresses(urls: str) -> list[Address]:
    """Return the servers in *urls*: `nats://[user:password@]host[:port]`, several separated by commas.

    `tls://` asks for encryption; a user without password is a token. `?credentials=FILE` names the seed of
    an NKey, `&ca=FILE` the authorities that vouch for the server.
    """
    found = []
    for url in urls.split(","):
        text = url.strip()
        parts = urlsplit(text if "://" in text else f"nats://{text}")
        if parts.scheme not in ("nats", "tls") or not parts.hostname:
            raise ValueError(f"{shown(url)!r}: expected nats://host:port or tls://host:port")
        found.append(
            Address(
                host=parts.hostname,
                port=parts.port or 4222,
                tls=parts.scheme == "tls",
                user=unquote(parts.username or ""),
                password=unquote(parts.password or ""),
                **_files(parts.query),
            )
        )
    return found


def _files(query: str) -> dict[str, str]:
    given = {key: values[-1] for key, values in parse_qs(query, keep_blank_values=True).items()}
    if unknown := given.keys() - {"credentials", "ca"}:
        raise ValueError(f"?{min(unknown)}: a server's address may have credentials and ca")
    return given


def with_files(urls: str, credentials: str | None, ca: str | None) -> str:
    """Return the servers with files to log in by, where they do not name their own.

    >>> with_files("tls://a,tls://b:1", "/k", None)
    'tls://a?credentials=%2Fk,tls://b:1?credentials=%2Fk'
    """
    files = urlencode({key: file for key, file in (("credentials", credentials), ("ca", ca)) if file})
    return (
        ",".join(url if "?" in url else f"{url.strip()}?{files}" for url in urls.split(","))
        if files
        else urls
    )


def shown(urls: str) -> str:
    """Return the servers as people and logs may see them: without passwords, tokens and files.

    >>> shown("nats://owner:secret@127.0.0.1:4222,a:1")
    'nats://127.0.0.1:4222,a:1'
    """
    return _QUERY.sub("", _LOGIN.sub("", urls))


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
