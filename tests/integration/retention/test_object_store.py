"""An archive in an S3-compatible store: as good as one in a directory, whatever the store does meanwhile."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import obstore
import pytest

from sluice.local.server import EmbeddedServer
from sluice.retention import object_lease, object_store
from sluice.retention.archive import Archive
from sluice.retention.cycle import Report, round_of
from sluice.retention.errors import ArchiveError, NotVerifiedError
from sluice.retention.live import opened
from sluice.retention.object_store import Bucket
from sluice.retention.policy import RetentionPolicy
from sluice.retention.stores import held, store_at
from tests.support.command import sluice
from tests.support.nats import nats_server
from tests.support.s3 import KEY, SECRET, FaultyS3, S3Server
from tests.support.waiting import wait_until

from .played import Played

__all__ = ["nats_server"]
pytestmark = pytest.mark.nats

NOW = time.time_ns() // 1000 + 3_600_000_000


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def store(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyS3]:
    """A store whose key is in a file, with a bucket called as this test."""
    keys = tmp_path / "keys"
    keys.write_text(f"[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with FaultyS3(server) as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{store.port}")
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
        yield store


@pytest.fixture
def place(store: FaultyS3, tmp_path: Path) -> str:
    bucket = f"sluice-{abs(hash(tmp_path))}"
    store.server.make_bucket(bucket)
    return f"s3://{bucket}/cells/main"


@pytest.fixture
def played(nats_server: EmbeddedServer, tmp_path: Path, place: str) -> Played:
    return Played(nats_server.url, tmp_path, store=store_at(place))


def one_round(played: Played, share: float = 0.5) -> Report:
    """Let at most so great a share of the log stay."""

    async def run() -> Report:
        async with held(played.store), opened(played.url, "main") as cell:
            policy = RetentionPolicy(max_bytes=int(await cell.size() * share), keep_s=0)
            return await round_of(cell, Archive(played.store, "main"), policy, NOW, without_api=True)

    return asyncio.run(run())


def test_cut_log_says_the_same(played: Played, store: FaultyS3) -> None:
    """Half of it goes, then half of the rest; all requests are by the key of the file."""
    first, second = one_round(played), one_round(played)

    assert 1 < first.first < second.first
    played.nothing_lost()
    played.same(played.with_archive())
    assert store.keys == {KEY}


def test_archived_and_restored_by_command(played: Played, place: str, tmp_path: Path) -> None:
    """The command line takes the store's address wherever it takes an archive's directory."""
    live = ("--server", played.url)
    said = sluice(*live, "log", "archive", place, "--max-size", "60k", "--keep", "0s", "--without-api").ok()
    assert "cut; the log begins at" in said.out
    sluice(*live, "log", "archive", place).ok()
    assert "0 violations" in sluice("log", "lint", "-l", place).ok().out
    assert sluice(*live, "replay", "state", "--at", "2", "--archive", place).ok().out

    with EmbeddedServer(tmp_path / "fresh", name="sluice-test") as fresh:
        there = ("--server", fresh.url)
        assert "into cell main" in sluice(*there, "log", "restore", place).ok().out
        sluice(*there, "replay", "verify").ok()


@pytest.mark.parametrize("step", [1, 2, 4, 6, 8])
def test_killed_at_any_step_nothing_is_lost(
    played: Played, place: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL behind the n-th step. The dead one's lease runs out, and the next round goes on."""
    command = [sys.executable, "-m", "tests.integration.retention.killed_round"]
    killed = subprocess.run(
        [*command, played.url, place, "60000", str(step)], capture_output=True, text=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    with pytest.raises(ArchiveError, match="somebody else is writing"):
        one_round(played)
    played.nothing_lost()
    monkeypatch.setattr(object_lease, "LEASE_S", 1.0)

    def done() -> bool:
        with contextlib.suppress(ArchiveError):
            return one_round(played).first > 1
        return False

    wait_until(done)
    played.nothing_lost()


def test_a_store_with_errors_of_its_own_is_asked_again(played: Played, store: FaultyS3) -> None:
    store.answer_500(times=6)

    assert one_round(played).first > 1
    played.nothing_lost()


def test_a_store_that_stays_away_cuts_nothing(
    played: Played, store: FaultyS3, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said in a line; when the store is back, the same round goes on."""
    monkeypatch.setattr(object_store, "TRY_S", 1)
    played.store = store_at(place)
    store.answer_500(times=1_000_000)

    with pytest.raises(ArchiveError, match=r"s3://.*: (InternalError|the object store)") as told:
        one_round(played)
    assert len(str(told.value)) < 300
    assert SECRET not in str(told.value)
    assert played.live().first == 1

    store.answer_500(times=0)
    assert one_round(played).first > 1
    played.nothing_lost()


def test_a_torn_upload_is_made_again(played: Played, store: FaultyS3) -> None:
    """The connection ends in the middle of a segment, and of a description."""
    store.tear(".slog", times=2)
    assert one_round(played).first > 1
    store.tear(".json", times=1)
    assert one_round(played).cut
    played.nothing_lost()


def test_half_an_upload_is_nowhere(
    played: Played, store: FaultyS3, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in parts of which one never comes, and a segment that never comes: no name has half of it."""
    monkeypatch.setattr(object_store, "TRY_S", 1)
    bucket = Bucket(place)
    path = tmp_path / "large"
    path.write_bytes(os.urandom(12 << 20))
    store.tear("partNumber=2", times=1_000)
    with pytest.raises(ArchiveError):
        bucket.put("large", path)
    assert bucket.names() == []

    store.tear("", times=0)
    bucket.put("large", path)
    assert bucket.local("large").read_bytes() == path.read_bytes()

    played.store = Bucket(f"{place}/again")
    store.tear(".slog", times=1_000)
    with pytest.raises(ArchiveError):
        one_round(played)
    assert played.live().first == 1
    assert played.store.names() == []
    store.tear("", times=0)
    assert one_round(played).first > 1


def test_one_writer_at_a_time(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is refused; who could not renew writes no more; what is given back is free."""
    path = tmp_path / "file"
    path.write_bytes(b"x")
    first, second = Bucket(place), Bucket(place)
    with first.locked():
        with pytest.raises(ArchiveError, match="somebody else is writing"), second.locked():
            pass
        first.put("a", path)
        monkeypatch.setattr(object_lease, "STOP_S", 0.0)
        with pytest.raises(ArchiveError, match="could not be renewed"):
            first.put("b", path)
        monkeypatch.setattr(object_lease, "STOP_S", 45.0)
    with second.locked():
        second.put("c", path)
    assert first.names() == ["a", "c"]


def test_a_lease_is_renewed_and_lost(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It outlives its length while its holder lives, and ends at once when somebody else has it."""
    monkeypatch.setattr(object_lease, "RENEW_S", 0.2)
    monkeypatch.setattr(object_lease, "LEASE_S", 5.0)
    path = tmp_path / "file"
    path.write_bytes(b"x")
    first, second = Bucket(place), Bucket(place)
    with first.locked():

        def made() -> datetime:
            return obstore.head(first._store, object_store.LOCK)["last_modified"]

        begun = made()
        wait_until(lambda: made() > begun)
        with pytest.raises(ArchiveError, match="somebody else"), second.locked():
            pass
        second.put(object_store.LOCK, path)

        def lost() -> bool:
            try:
                first.put("a", path)
            except ArchiveError:
                return True
            return False

        wait_until(lost)


def test_what_was_fetched_goes_when_room_is_short(
    played: Played, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive is read through a copy of one segment at a time, if there is no more room."""
    one_round(played)
    one_round(played)
    monkeypatch.setattr(object_store, "LOCAL_BYTES", 1)
    played.store = Bucket(place)
    source = Archive(played.store, "main").source()

    for _ in range(2):
        found = [entry for batch in source.read() for entry in batch]
        assert [entry.seq for entry in found] == list(range(1, source.end + 1))
    assert len(Archive(played.store, "main").segments) > 1


@pytest.mark.parametrize("place", ["s3://me:secret@bucket/x", "s3:///x", "s3://bucket?secret=1"])
def test_keys_are_in_no_address(place: str) -> None:
    with pytest.raises(ArchiveError, match="s3://BUCKET/PREFIX") as told:
        store_at(place)
    assert "secret" not in str(told.value)


def test_a_key_that_is_missing_is_told(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file's name is told, and nothing of what is in it."""
    keys = tmp_path / "broken"
    keys.write_text(f"[default]\naws_secret = {SECRET}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))

    with pytest.raises(ArchiveError) as told:
        Bucket(place).names()
    assert SECRET not in str(told.value)
    assert "broken" in str(told.value)


def test_segments_are_looked_at_again_before_the_cut(played: Played, place: str, tmp_path: Path) -> None:
    """What was changed in the store since is found before its messages go, whatever was fetched before."""
    one_round(played, 0.7)
    before = played.live().first
    name = next(name for name in played.store.names() if name.endswith(".slog"))
    good = played.store.local(name).read_bytes()
    path = tmp_path / "damaged"
    path.write_bytes(good[:-200] + bytes([good[-200] ^ 1]) + good[-199:])
    Bucket(place).put(name, path)

    with pytest.raises((ArchiveError, NotVerifiedError), match=r"damaged|checksum"):
        one_round(played, 0.4)
    assert played.live().first == before
