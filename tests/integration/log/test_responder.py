"""Answering requests over NATS, whoever asks."""

import nats
import pytest

from sluice.log.nats.responder import Responder
from tests.support.raw_publisher import publish_bytes

pytestmark = pytest.mark.nats

HEADERS = b"NATS/1.0\r\n\xff: \xfe\r\n\r\n"


async def test_requests_of_any_bytes(nats_server):
    """A request that is no text is passed over. The next one is answered, on the same connection."""

    async def answer(request: bytes) -> bytes:
        return b"heard " + request

    responder = Responder(nats_server.url, "test")
    await responder.open()
    asking = await nats.connect(nats_server.url)
    try:
        await responder.subscribe("ask.>", answer)
        await responder._client.flush()  # else the server may not know of it yet when it is asked
        assert (await asking.request("ask.a", b"1", timeout=5)).data == b"heard 1"
        publish_bytes(nats_server.url, b"ask.\xff", b"2", reply=b"_INBOX.x")
        publish_bytes(nats_server.url, b"ask.a", b"3", reply=b"_INBOX.\xff")
        publish_bytes(nats_server.url, b"ask.a", b"4", reply=b"_INBOX.x", headers=HEADERS)
        assert (await asking.request("ask.a", b"5", timeout=5)).data == b"heard 5"
    finally:
        await asking.close()
        await responder.close()
