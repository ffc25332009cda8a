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


async def test_nothing_is_left_of_what_was_deleted(nats_server, open_log):
    """However many snapshots there were, the bucket holds those that are kept, and nothing of others."""
    log = await open_log()
    store = ObjectBucket(log)
    await store.put("left", b"x", b"of an earlier release, which kept the description of what it deleted")
    client = await nats.connect(nats_server.url)
    await (await client.jetstream().object_store("sluice_main_snapshots")).delete("left")
    for number in range(5):
        await store.put(f"view-{number}", b"state", b"about")
        if number:
            await store.delete(f"view-{number - 1}")

    state = (await client.jetstream().stream_info("OBJ_sluice_main_snapshots")).state
    await client.close()
    assert await store.listing() == {"view-4": b"about"}
    assert state.messages == 2, "its bytes and its description"


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
