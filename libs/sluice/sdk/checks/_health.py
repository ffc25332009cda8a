"""/healthz and /metrics of a controller."""

from dataclasses import dataclass

import msgspec

from sluice.log.errors import LogUnavailableError
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.runtime.lease import Lease
from sluice.telemetry.http import Page, Scrape

from ._metrics import Numbers


@dataclass
class Health:
    """What the process knows of its own state."""

    controller: str
    instance: str
    numbers: Numbers
    lease: Lease
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

    async def healthz(self) -> Page:
        """Return how the process is, for orchestrators."""
        well, body = await self.body()
        return Page(body, status=200 if well else 503)

    async def metrics(self) -> Scrape:
        """Return what it counts, for Prometheus."""
        return Scrape(self.numbers)
