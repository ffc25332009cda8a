"""/healthz and /metrics over HTTP, for orchestrators and Prometheus. GET only; nothing else is served."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Self

import msgspec

from sluice.log.errors import LogUnavailableError
from sluice.log.nats.jetstream import JetStreamLog

from .lease import HeartbeatLease
from .metrics import Numbers, prometheus

REQUEST_S = 5.0


@dataclass
class Health:
    """What the process knows of its own state."""

    controller: str
    instance: str
    numbers: Numbers
    lease: HeartbeatLease
    log: JetStreamLog

    async def body(self) -> tuple[bool, bytes]:
        """Return whether it can work, and the answer as JSON."""
        connected = True
        try:
            await self.log.connection(0.5)
        except (LogUnavailableError, ConnectionError, TimeoutError):
            connected = False
        active = bool(self.numbers.active)
        report = {
            "controller": self.controller,
            "instance": self.instance,
            "connected": connected,
            "role": "active" if active else "stand-by",
            "holder": self.lease.holder,
            "requests": self.numbers.requests,
            "running": self.numbers.running,
            "queued": self.numbers.queued,
        }
        return connected, msgspec.json.encode(report)


class HealthServer:
    """Serves at *address*, `host:port` or `:port`; "" for not at all.

    Raises, on entering:
        ValueError: not an address.
        OSError: the address is in use.
    """

    def __init__(self, address: str, health: Health) -> None:
        self.address, self.health = address, health
        self.port = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        if self.address:
            host, colon, port = self.address.rpartition(":")
            if not colon or not port.isdigit():
                raise ValueError(f"SLUICE_CHECK_HTTP={self.address!r}: expected host:port or :port")
            self._server = await asyncio.start_server(self._answer, host or None, int(port))
            self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            async with asyncio.timeout(REQUEST_S):
                line = [*(await reader.readline()).decode("latin-1").split(), "", ""]
                while (await reader.readline()).strip():
                    pass
                status, kind, body = await self._page(line[0], line[1])
                head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
                writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()

    async def _page(self, method: str, target: str) -> tuple[str, str, bytes]:
        path = target.partition("?")[0]
        if method != "GET":
            return "405 Method Not Allowed", "text/plain", b"GET only\n"
        if path == "/healthz":
            well, body = await self.health.body()
            return ("200 OK" if well else "503 Service Unavailable"), "application/json", body
        if path == "/metrics":
            return "200 OK", "text/plain; version=0.0.4", prometheus(self.health.numbers).encode()
        return "404 Not Found", "text/plain", b"/healthz, /metrics\n"
