"""Messages as no client library would send them: subjects, replies and headers of any bytes."""

import socket


def publish_bytes(url: str, subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes = b"") -> None:
    """Publish once; returns when the server has read it. *headers*: the whole block, with its first line."""
    host, _, port = url.removeprefix("nats://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as link:
        if headers:
            sizes = len(headers), len(headers) + len(payload)
            frame = b"HPUB %s %s %d %d\r\n%s%s\r\n" % (subject, reply, *sizes, headers, payload)
        else:
            frame = b"PUB %s %s %d\r\n%s\r\n" % (subject, reply, len(payload), payload)
        link.sendall(b'CONNECT {"verbose":false,"headers":true}\r\n' + frame + b"PING\r\n")
        received = b""
        while b"PONG" not in received:
            more = link.recv(4096)
            if not more:
                raise ConnectionError(f"the server hung up: {received[-200:]!r}")
            received += more
