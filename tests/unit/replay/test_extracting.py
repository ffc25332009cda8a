"""Extracts: the least that reproduces one workload's history; and logs that are fit to share."""

from collections.abc import Callable

import pytest

from sluice.events.codec import decode_message
from sluice.log.contract import Entry
from sluice.replay.causes import history
from sluice.replay.checking import check
from sluice.replay.extracting import Closure, Extract
from sluice.replay.linting import lint
from sluice.replay.redacting import OtherDecisionsError, Redactor, redacted_whole
from sluice.replay.source import FileSource, ListSource
from sluice.replay.states import deciders
from tests.bench.recorded import Recorder
from tests.bench.scenario import SMOKE

from .incident import EXAMPLE, GOLDEN
from .test_invariants import altered, elastic, families
from .test_whatif import checked


def incident() -> list[Entry]:
    return [entry for batch in FileSource(EXAMPLE).read() for entry in batch]


def smoke() -> list[Entry]:
    entries: list[Entry] = []
    Recorder(entries.append, SMOKE).play(1500)
    return entries


CASES = [
    (incident, "train-4", 50),
    (incident, "train-1", 15),
    (families, "b", 24),
    (elastic, "a", 14),
    (checked, "again", 26),
    (smoke, "", 60),
]


def told(entries: list[Entry], name: str) -> list[tuple[int, str, str]]:
    return [
        (h.seq, h.type, str(h.data.get("message", "")))
        for h in history(ListSource(entries), [f"default/{name}"])
    ]


@pytest.mark.parametrize(("story", "name", "most"), CASES, ids=[f"{s.__name__}-{n}" for s, n, _ in CASES])
def test_an_extract_has_the_same_history_and_decides_itself(
    story: Callable[[], list[Entry]], name: str, most: int
) -> None:
    """Every event about the workload is where it was; all services verify; nothing needless is left."""
    whole = story()
    name = name or next(e.suffix.rpartition(".")[2] for e in whole[200:] if e.suffix.startswith("job."))
    source = ListSource(whole)
    found = Extract(source, Closure(source, name))
    part = found.cut()

    assert found.exact
    assert told(part, name) == told(whole, name)
    assert all(check(ListSource(part), decider).divergence is None for decider in deciders())
    assert not lint(ListSource(part))[0]
    assert len(part) < len(whole)
    assert len(part) <= most


def test_nothing_more_can_be_left_out():
    """Without any single job that is left, the history would be another one."""
    source = ListSource(incident())
    found = Extract(source, Closure(source, "train-4"))
    part = found.cut()
    jobs = {e.suffix for e in part if e.suffix.startswith("job.")}

    assert "job.default.train-4" in jobs
    assert "job.default.api-rollout" in jobs
    assert len(jobs) < len({e.suffix for e in incident() if e.suffix.startswith("job.")})
    again = Extract(ListSource(part), Closure(ListSource(part), "train-4"))
    assert len(again.cut()) == len(part)


def test_a_log_of_other_code_is_kept_as_it_is():
    """An extract never rewrites what today's code would not have decided."""
    source = FileSource(GOLDEN / "must-fail-victim-order.jsonl")
    found = Extract(source, Closure(source, "train-4"))
    part = found.cut()

    assert not found.exact
    assert told(part, "train-4") == told([e for b in source.read() for e in b], "train-4")


@pytest.mark.parametrize("story", [incident, families, elastic, checked], ids=lambda each: each.__name__)
def test_redaction_keeps_decisions(story):
    """The redacted log verifies, decides as many of the same events, and holds no command or message."""
    whole = story()
    batches = redacted_whole([whole], Redactor(b"salt"), "main")
    part = [entry for batch in batches for entry in batch]

    assert [(e.seq, e.suffix, e.at) for e in part] == [(e.seq, e.suffix, e.at) for e in whole]
    for decider in deciders():
        mine = [e for e in part if e.suffix == decider.writer]
        assert check(ListSource(part), decider).divergence is None
        assert len(mine) == len([e for e in whole if e.suffix == decider.writer])
    assert b'"busybox"' not in b"".join(e.payload for e in part)
    assert b'"true"]' not in b"".join(e.payload for e in part if e.suffix.startswith("job."))


def test_different_secrets_stay_different():
    """A job submitted again with another command is another job, also without the command."""
    redactor = Redactor(b"salt")
    first = redactor._blank("command", ["run", "a"])
    assert first != redactor._blank("command", ["run", "b"])
    assert first == redactor._blank("command", ["run", "a"])
    assert Redactor(b"other")._blank("command", ["run", "a"]) != first
    assert redactor._blank("message", "") == ""


def test_other_code_is_told():
    """A log that today's code decides otherwise is not quietly decided anew."""
    source = FileSource(GOLDEN / "must-fail-victim-order.jsonl")
    entries = [entry for batch in source.read() for entry in batch]
    changed = altered(entries, lambda e: () if type(e).__name__ == "Preempted" else (e,))
    with pytest.raises(OtherDecisionsError, match="commit 27"):
        list(redacted_whole([changed], Redactor(b"salt"), "main"))


def test_redacted_messages_are_still_messages():
    whole = incident()
    for batch in redacted_whole([whole], Redactor(b"salt"), "main"):
        for entry in batch:
            if entry.suffix.startswith("job."):
                assert not isinstance(decode_message(entry.payload), tuple)
