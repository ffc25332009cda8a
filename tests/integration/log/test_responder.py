"""Answering requests over NATS, whoever asks."""

import os
import signal

import nats
import pytest

from sluice.log.nats import responder as responders
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
        assert (await asking.request("ask.a", b"1", timeout=5)).data == b"heard 1"
        publish_bytes(nats_server.url, b"ask.\xff", b"2", reply=b"_INBOX.x")
        publish_bytes(nats_server.url, b"ask.a", b"3", reply=b"_INBOX.\xff")
        publish_bytes(nats_server.url, b"ask.a", b"4", reply=b"_INBOX.x", headers=HEADERS)
        assert (await asking.request("ask.a", b"5", timeout=5)).data == b"heard 5"
    finally:
        await asking.close()
        await responder.close()


async def test_a_server_that_knows_late(nats_server, monkeypatch):
    """It does not keep the service from going on, nor from answering once it hears it."""
    monkeypatch.setattr(responders, "KNOWN_TIMEOUT_S", 0.1)

    async def answer(request: bytes) -> bytes:
        return b"heard " + request

    responder = Responder(nats_server.url, "test")
    await responder.open()
    try:
        os.kill(nats_server.pid, signal.SIGSTOP)
        await responder.subscribe("ask.a", answer)
        os.kill(nats_server.pid, signal.SIGCONT)
        await responder.subscribe("ask.b", answer)
        asking = await nats.connect(nats_server.url)
        try:
            for subject in ("ask.a", "ask.b", "ask.a"):
                assert (await asking.request(subject, b"1", timeout=5)).data == b"heard 1"
        finally:
            await asking.close()
    finally:
        await responder.close()
