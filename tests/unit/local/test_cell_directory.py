"""Programs find the cell of their directory, as the command does."""

import os

import pytest

from sluice.local.cell_directory import CellState, Place
from sluice.sdk import AsyncClient
from sluice.sdk._client import DEFAULT_URL


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch):
    for name in ("SLUICE_NATS_URL", "NATS_URL", "SLUICE_CELL"):
        monkeypatch.delenv(name, raising=False)


def found():
    client = AsyncClient()
    return client.url, client.log.cell.name


def test_a_client_finds_the_cell_that_runs_above(tmp_path, monkeypatch):
    place, below = Place(tmp_path / ".sluice"), tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    url = "nats://127.0.0.1:12345"
    with place.take():
        place.write(CellState(cell="lab", url=url, pid=os.getpid(), server_pid=0, started_at=0.0))
        assert found() == (url, "lab")
        monkeypatch.setenv("SLUICE_NATS_URL", "nats://elsewhere:4222")
        assert found() == ("nats://elsewhere:4222", "main")
        monkeypatch.delenv("SLUICE_NATS_URL")
    assert found() == (DEFAULT_URL, "main"), "it has ended"
