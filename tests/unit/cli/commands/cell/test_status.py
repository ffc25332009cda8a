"""`sluice status` of a cell whose services cannot go on."""

import json
from pathlib import Path

import pytest

from sluice.cli.commands.cell.status import _stored, _why_not, leaderless, with_absent
from sluice.readmodel.replicas import _entry

SERVICES = ["admission-check", "api", "scheduler", "slice-aggregator", "variant-controller"]


def test_every_service_has_a_row():
    """Also those that are being started again at the moment of the question."""
    found = [{"service": "api", "role": "serving"}, {"service": "slice-aggregator", "role": "stopped"}]

    rows = with_absent(found)

    assert [row["service"] for row in rows] == SERVICES
    assert {row["service"]: row["role"] for row in rows} == dict.fromkeys(SERVICES, "down") | {
        "api": "serving",
        "slice-aggregator": "stopped",
    }
    assert leaderless(rows) == [name for name in SERVICES if name != "api"]


def test_a_cell_that_is_well_has_no_other_rows():
    found = [{"service": name, "role": "serving" if name == "api" else "leader"} for name in SERVICES]

    assert with_absent(found) == found
    assert leaderless(found) == []
    assert with_absent([]) == []


def test_the_api_service_has_no_leader_to_miss():
    assert "api" not in leaderless(with_absent([{"service": "scheduler", "role": "leader"}]))


def test_why_it_cannot_go_on_stands_in_its_log(tmp_path: Path):
    """The last time counts, whatever else was said since; other services' logs are not looked at."""
    said = [{"event": "cannot go on", "error": f"slices at seq {n}\x1b[31m: upgrade first"} for n in (1, 272)]
    log = tmp_path / "scheduler-2.log"
    log.write_text("\n".join([*map(json.dumps, said), '{"event":"started"}', "[" * 100_000, "no json"]))
    other = tmp_path / "api.log"
    other.write_text(json.dumps(said[0]))
    local = [
        {"label": "api", "log": str(other), "state": "running"},
        {"label": "scheduler-2", "log": str(log), "state": "ended"},
    ]

    assert _why_not("scheduler", local) == "cannot go on: slices at seq 272 [31m: upgrade first"
    assert _why_not("slice-aggregator", local) == ""
    assert (
        _why_not("scheduler", [{"label": "scheduler", "log": str(tmp_path / "gone"), "state": "running"}])
        == ""
    )


def test_a_process_that_is_stopped_says_nothing_and_is_named(tmp_path: Path):
    """What it said before does not matter: it would go on."""
    stopped = {"label": "scheduler", "log": str(tmp_path / "gone"), "pid": 77, "state": "stopped"}
    assert "kill -CONT 77" in _why_not("scheduler", [stopped])


@pytest.mark.parametrize(
    "answer", [b"", b"3", b"[]", b'{"name":3}', b'{"name":"sluice-x","metadata":[1]}', b"[" * 9999]
)
def test_an_answer_that_makes_no_sense_is_nobody_s(answer):
    assert _entry(answer, "main") is None


def test_how_the_log_is_stored_is_said_as_far_as_it_is_known():
    """An api service of before says nothing of it."""
    said = {"first": 90100, "messages": 41000, "bytes": 61_200_000, "copies": 1, "current": 1}
    assert _stored(said) == ["Log from 90100 on: 41000 messages, 61.2 MB"]
    assert _stored(said | {"copies": 3, "current": 2})[0].endswith(", 2 of 3 copies current")
    assert _stored(None) == []
