"""Snapshots in the object store: readable by any client, never half there."""

import nats
import pytest

from sluice.log.errors import LogUnavailableError
from sluice.log.nats import objects
from sluice.log.nats.objects import ObjectBucket

pytestmark = pytest.mark.nats


async def test_objects_survive(open_log, monkeypatch):
    """What is put can be listed and fetched, in many chunks; what is deleted is gone."""
    monkeypatch.setattr(objects, "CHUNK_BYTES", 1000)
    store = ObjectBucket(await open_log())
    assert await store.listing() == {}
    data = bytes(range(256)) * 50

    await store.put("a", data, b"first")
    await store.put("b", b"", b"empty")

    assert await store.listing() == {"a": b"first", "b": b"empty"}
    assert await store.get("a") == data
    assert await store.get("b") == b""
    await store.delete("a")
    await store.delete("never there")
    assert await store.listing() == {"b": b"empty"}


async def test_clients_read_them(nats_server, open_log):
    """The layout is that of the clients' object stores, digest included."""
    store = ObjectBucket(await open_log())
    await store.put("a", b"x" * 3_000_000, b"about")

    client = await nats.connect(nats_server.url)
    theirs = await client.jetstream().object_store("sluice_main_snapshots")
    found = await theirs.get("a")
    assert found.data == b"x" * 3_000_000
    assert [info.description for info in await theirs.list()] == ["about"]
    await client.close()


async def test_server_away_is_an_error_in_time(nats_server, open_log, monkeypatch):
    monkeypatch.setattr(objects, "ASK_TIMEOUT_S", 0.2)
    store = ObjectBucket(await open_log())
    nats_server.kill()

    with pytest.raises(LogUnavailableError):
        await store.listing()
