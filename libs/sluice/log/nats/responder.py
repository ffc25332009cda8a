"""Answers of a service over NATS: the services API (`$SRV`), and subjects of its own; with nats-py."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.micro import add_service
from nats.micro.service import EndpointConfig, Service, ServiceConfig

from sluice.log.errors import LogUnavailableError

from .protocol import addresses

__all__ = ["Answer", "Responder"]

log = structlog.get_logger("sluice.log.responder")

KNOWN_TIMEOUT_S = 2.0
"""How long a server may take to say that it knows of a subscription."""

Answer = Callable[[bytes], Awaitable[bytes | None]]
"""Makes an answer of a request; None is silence."""


class _Client(Client):
    """A client that goes on after a message that it cannot read: a subject or header that is no UTF-8.

    nats-py ends its read loop at the first one, and neither reconnects nor tells anybody.
    """

    @property
    def public_key(self) -> str | None:
        """The NKey of the next login."""
        return self._public_nkey

    @public_key.setter
    def public_key(self, key: str) -> None:
        self._public_nkey = key

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        try:
            await super()._process_msg(sid, subject, reply, data, headers)
        except Exception as error:
            log.warning("request not readable", subject=repr(subject[:100]), error=str(error))

    async def wait_until_known(self) -> None:
        """Wait until the server knows of all subscriptions, so that whoever asks from now on is heard.

        Without a server there is nobody to wait for: it is told again when the connection is back. To flush
        does not serve: its ping overtakes what waits to be sent, and its pong, if late, ends the read loop.
        """
        if self.is_connected:
            pong = asyncio.get_running_loop().create_future()
            await self._flush_pending(force_flush=True)
            await self._send_ping(pong)
            await asyncio.wait([pong], timeout=KNOWN_TIMEOUT_S)


class Responder:
    """A connection that answers requests, and comes back whenever it is lost. *urls*: separated by commas."""

    def __init__(self, urls: str, name: str) -> None:
        self._urls, self._name = [url.partition("?")[0] for url in urls.split(",")], name
        self._address = addresses(urls)[0]
        self._client = _Client()
        self._service: Service | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._said = ""
        self._opened = False

    @property
    def max_payload(self) -> int:
        """Most bytes of one message that the server takes."""
        return self._client.max_payload

    async def open(self) -> None:
        """Connect.

        Raises:
            LogUnavailableError: no server, or none that lets this user in.
        """
        try:
            await self._client.connect(
                self._urls,
                name=self._name,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.2,  # type: ignore[arg-type]
                error_cb=self._complain,
                reconnected_cb=self._back,
                signature_cb=self._proof if self._address.credentials else None,
                tls=self._address.tls_context() if self._address.ca else None,
            )
        except (OSError, TimeoutError, ValueError, NatsError) as error:
            raise LogUnavailableError(str(error) or type(error).__name__) from error
        self._opened = True

    def _proof(self, nonce: str) -> bytes:
        self._client.public_key, proof = self._address.proof(nonce)
        return proof.encode()

    async def open_in_the_end(self) -> None:
        """Connect, however long it takes."""
        while True:
            try:
                return await self.open()
            except LogUnavailableError as error:
                log.info("cannot connect", error=str(error))
                await asyncio.sleep(0.2)

    async def _complain(self, error: Exception) -> None:
        """Warn when something else is wrong than before: each attempt to reconnect fails alike."""
        text = str(error) or type(error).__name__
        (log.debug if text == self._said else log.warning)("connection", error=text)
        self._said = text

    async def _back(self) -> None:
        self._said = ""

    async def offer(
        self,
        name: str,
        version: str,
        description: str,
        metadata: Mapping[str, str],
        stats: Callable[[], dict[str, Any]],
    ) -> None:
        """Answer on the services API as *name*; *stats* is what `$SRV.STATS` tells of each endpoint."""
        self._service = await add_service(
            self._client,
            ServiceConfig(
                name=name,
                version=version,
                description=description,
                metadata=dict(metadata),
                stats_handler=lambda _: stats(),
            ),
        )

    async def endpoint(self, name: str, subject: str, answer: Answer) -> None:
        """Answer on *subject* as part of the service that was offered: one of its replicas answers.

        Each request in a task of its own: a long one keeps no other waiting. *answer* must not raise.
        """
        assert self._service is not None

        async def respond(request: Any) -> None:
            if (reply := await answer(request.data)) is not None:
                await request.respond(reply)

        async def handle(request: Any) -> None:
            task = asyncio.create_task(respond(request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        await self._service.add_endpoint(EndpointConfig(name=name, subject=subject, handler=handle))
        await self._client.wait_until_known()

    async def subscribe(self, subject: str, answer: Answer) -> None:
        """Answer on *subject* beside a service: every replica does."""

        async def handle(message: Any) -> None:
            if message.reply and (reply := await answer(message.data)) is not None:
                await message.respond(reply)

        await self._client.subscribe(subject, cb=handle)
        await self._client.wait_until_known()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._service is not None:
            await self._service.stop()
        if self._opened:
            await self._client.close()
