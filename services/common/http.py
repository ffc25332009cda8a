"""Asks HTTP endpoints that are not to be trusted: limits of time and size, no redirects."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, Self

import aiohttp

CHUNK = 16 * 1024


class HttpError(Exception):
    """No usable answer; says why, for people."""


class Answer(NamedTuple):
    """`headers` with lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def excerpt(self) -> str:
        """Return the beginning of the body, on one line, for messages."""
        text = " ".join(self.body[:400].decode("utf-8", "replace").split())
        text = "".join(char if char.isprintable() else "?" for char in text)
        return f"{text[:160]}..." if len(text) > 160 else text


class Http:
    """Connections to endpoints. Use as an asynchronous context manager."""

    def __init__(self, *, concurrency: int = 100) -> None:
        self._concurrency = concurrency
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=self._concurrency)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "sluice"},
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(
        self,
        method: str,
        url: str,
        *,
        timeout_s: float,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        most_bytes: int = 1 << 20,
    ) -> Answer:
        """Send a request and return whatever is answered in time, redirects and failures too.

        Raises:
            HttpError: no connection, no whole answer within *timeout_s*, or more than *most_bytes*.
        """
        assert self._session is not None
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session.request(
                    method,
                    url,
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=None),
                ) as response,
            ):
                found = bytearray()
                async for chunk in response.content.iter_chunked(CHUNK):
                    found += chunk
                    if len(found) > most_bytes:
                        # The rest is not read: leaving the block drops the connection.
                        response.close()
                        raise HttpError(f"the answer has more than {most_bytes} bytes")
                named = {name.lower(): value for name, value in response.headers.items()}
                return Answer(response.status, named, bytes(found))
        except TimeoutError:
            raise HttpError(f"no answer within {timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise HttpError(_told(error)) from error


def _told(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"certificate not accepted: {error.certificate_error}"
        case aiohttp.ClientConnectorError():
            return f"cannot connect to {error.host}:{error.port}: {error.strerror or error.os_error}"
        case aiohttp.ServerDisconnectedError():
            return "the connection was closed before the answer"
        case aiohttp.ClientPayloadError():
            return "the answer broke off"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
