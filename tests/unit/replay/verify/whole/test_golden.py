"""Golden logs: recorded histories that must come out as they did. `record.py` makes them."""

from pathlib import Path
from typing import Any

import pytest

from sluice.core.scheduler.decider import Scheduler
from sluice.events.codec import decode_commit, encode_commit, message_id_of
from sluice.events.commit import Step
from sluice.log.contract import Entry
from sluice.replay.source import json_lines
from tests.support.verify import entries_for, verify
from tests.unit.replay.record import DECIDERS, LOGS, digest

GOLDEN = sorted(path.with_suffix("") for path in LOGS.glob("*.sha256"))


def load(name: str | Path) -> list[Entry]:
    with (LOGS / f"{name}.jsonl").open("rb") as file:
        return list(json_lines.read(file))


@pytest.mark.parametrize("kind", DECIDERS, ids=lambda kind: kind.writer)
@pytest.mark.parametrize("log", GOLDEN, ids=lambda path: path.name)
def test_recorded_history_is_decided_again(log, kind):
    """Every decision comes out as it did, and leads to the state that there was, byte for byte."""
    lines = log.with_suffix(".sha256").read_text().splitlines()
    expected = {writer: sha for sha, writer in map(str.split, lines)}
    decider = kind()

    verdict = verify(decider, entries_for(decider, load(log.name)))

    assert verdict.divergence is None
    assert verdict.steps >= 40
    assert not verdict.unsettled
    assert digest(verdict.fold) == expected[kind.writer]


def test_changed_event_is_found():
    """One amount of quota was changed in the last commit; that is where deciding again stops."""
    entries = load("changed-event")
    scheduler = Scheduler()

    verdict = verify(scheduler, entries_for(scheduler, entries))

    divergence = verdict.divergence
    assert divergence is not None
    assert (divergence.seq, divergence.reason) == (entries[-1].seq, "decided otherwise")
    assert len(divergence.expected) == len(divergence.found)
    assert "'cpu': 1001" in str(divergence)
    assert "'cpu': 1000" in str(divergence)


@pytest.fixture
def entries() -> list[Entry]:
    """The entries of the scheduler."""
    return list(entries_for(Scheduler(), load("takeovers")))


def changed(entries: list[Entry], **fields: Any) -> tuple[list[Entry], int]:
    """Return the log with other *fields* of the first step of a commit in its middle, and where that is."""
    commits = [index for index, entry in enumerate(entries) if entry.suffix == "scheduler"]
    place = commits[len(commits) // 2]
    entry = entries[place]
    first, *rest = decode_commit(entry.payload).steps
    plain: dict[str, Any] = {"upto": first.upto, "at": first.at, "events": first.events}
    steps = [Step(**plain | fields), *rest]
    payload = encode_commit("main", "scheduler", message_id_of(entry.payload), steps)
    return [*entries[:place], entry._replace(payload=payload), *entries[place + 1 :]], entry.seq


def reason(entries: list[Entry]) -> tuple[int, str]:
    divergence = verify(Scheduler(), entries).divergence
    assert divergence is not None
    return divergence.seq, divergence.reason


def test_step_that_knows_the_future_is_found(entries):
    """A step cannot rest on what came after its commit."""
    log, seq = changed(entries, upto=10_000)
    assert reason(log)[0] >= seq, "the commit is a stranger's; a later one rests on what it said"


def test_step_before_its_causes_is_found(entries):
    """A step cannot be older than what it knows."""
    log, seq = changed(entries, at=1)
    assert reason(log)[0] == seq
    assert "before the time" in reason(log)[1]


def test_lost_input_is_found(entries):
    """Without one of the messages that a decision rests on, the decision does not come out."""
    cause = next(e for e in entries if e.suffix == "slices" and b"WorkloadCreated" in e.payload)
    divergence = verify(Scheduler(), [entry for entry in entries if entry is not cause]).divergence
    assert divergence is not None


def test_lost_commit_is_found(entries):
    """Without one of the commits that reserve quota the next one does not come out."""
    commits = [e for e in entries if e.suffix == "scheduler" and b"QuotaReserved" in e.payload]
    lost = commits[len(commits) // 2]
    divergence = verify(Scheduler(), [entry for entry in entries if entry is not lost]).divergence
    assert divergence is not None
    assert divergence.seq > lost.seq
