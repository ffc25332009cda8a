"""Extracts: the least that reproduces one workload's history; and logs that are fit to share."""

from collections.abc import Callable

import pytest

from sluice.events.codec import decode_message
from sluice.log.contract import Entry
from sluice.log.runtime import process_pool
from sluice.protocol.subjects import COMMITS
from sluice.replay.extract import extract
from sluice.replay.extract.dependency_closure import Closure
from sluice.replay.extract.extract import Extract
from sluice.replay.extract.redact import OtherDecisionsError, Redactor, redacted_whole
from sluice.replay.extract.redecide import redecided
from sluice.replay.history.causes import history
from sluice.replay.lint.lint import lint
from sluice.replay.source.source import FileSource, ListSource
from sluice.replay.source.time_travel import deciders
from sluice.replay.verify.whole_log import check
from tests.bench.recorded import Recorder
from tests.bench.scenario import SMOKE
from tests.support.elastic_cell import Cell
from tests.support.family_world import cell, cluster_queue, job
from tests.unit.replay.incident import EXAMPLE, GOLDEN
from tests.unit.replay.lint.test_invariants import CLASSES, altered, elastic, families
from tests.unit.replay.simulate.test_what_if import checked


def incident() -> list[Entry]:
    return [entry for batch in FileSource(EXAMPLE).read() for entry in batch]


def smoke() -> list[Entry]:
    entries: list[Entry] = []
    Recorder(entries.append, SMOKE).play(1500)
    return entries


CASES = [
    (incident, "train-4", 50),
    (incident, "train-1", 15),
    (families, "b", 20),
    (families, "c", 31),
    (elastic, "a", 12),
    (checked, "again", 22),
    (smoke, "cq-0-0-small-3-0", 33),
    (smoke, "cq-0-0-small-16-0", 29),
    (smoke, "cq-1-0-large-1-1", 11),
]
"""Story, workload, and the messages of the least log that was ever found."""


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
    source = ListSource(whole)
    found = Extract(source, Closure(source, name))
    part = found.cut()

    assert found.exact
    assert told(part, name) == told(whole, name)
    assert all(check(ListSource(part), decider).divergence is None for decider in deciders())
    assert not lint(ListSource(part))[0]
    assert len(part) < len(whole)
    assert len(part) <= most


@pytest.mark.parametrize(("story", "name"), [case[:2] for case in CASES], ids=[case[1] for case in CASES])
def test_nothing_more_can_be_left_out(story: Callable[[], list[Entry]], name: str) -> None:
    """Without any single job or object that is left, the history would be another one."""
    whole = story()
    found = Extract(ListSource(whole), Closure(ListSource(whole), name))
    part = found.cut()
    assert not found.ended_early

    own = f"job.default.{name}"
    for left in {e.suffix if e.suffix.startswith("job.") else e.seq for e in part if _is_input(e)} - {own}:
        less = list(redecided(part, lambda e: None if left in (e.suffix, e.seq) else e))  # noqa: B023
        assert told(less, name) != told(whole, name), left


def _is_input(entry: Entry) -> bool:
    return entry.suffix == "config" or entry.suffix not in COMMITS


def test_who_was_in_the_way_is_kept():
    """Its preemptor is part of what happened to a workload; strangers are not."""
    source = ListSource(incident())
    part = Extract(source, Closure(source, "train-4")).cut()
    jobs = {e.suffix for e in part if e.suffix.startswith("job.")}

    assert "job.default.train-4" in jobs
    assert "job.default.api-rollout" in jobs
    assert len(jobs) < len({e.suffix for e in incident() if e.suffix.startswith("job.")})


def test_tries_side_by_side_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found depends neither on how many processors there are, nor on whether there are processes."""
    source = ListSource(incident())
    parts, tries = [], []
    for apart, processors in ((extract.APART, 1), (0, 1), (0, 3)):
        monkeypatch.setattr(extract, "APART", apart)
        monkeypatch.setattr(process_pool, "processors", lambda number=processors: number)
        found = Extract(source, Closure(source, "train-4"))
        parts.append(found.cut())
        tries.append(found.tries)

    assert parts[0] == parts[1] == parts[2]
    assert tries[0] == tries[1] == tries[2]


def test_the_bound_ends_the_search_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found by then is an extract like any other, and says that it may not be the least."""
    whole, name = smoke(), "cq-0-0-small-9-1"
    monkeypatch.setattr(extract, "WORK", 1)
    monkeypatch.setattr(extract, "TIMES", 1)
    found = Extract(ListSource(whole), Closure(ListSource(whole), name))
    shown: list[int] = []
    part = found.cut(shown.append)

    assert found.ended_early
    assert told(part, name) == told(whole, name)
    assert all(check(ListSource(part), decider).divergence is None for decider in deciders())
    assert max(shown) <= found.length


def test_a_job_that_nobody_can_admit_has_a_history_too():
    """Its local queue never came to be, so it is in no tree; nobody else is needed to tell of it."""
    world = cell(cluster_queue({"res": 1}), *CLASSES)
    world.submit("here")
    manifest = job("lost")
    manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "nowhere"
    world.message("job.default.lost", "JobSubmitted", manifest).settle_all()
    part = Extract(ListSource(world.log), Closure(ListSource(world.log), "lost")).cut()

    assert told(part, "lost") == told(world.log, "lost") != []
    assert {e.suffix for e in part if e.suffix.startswith("job.")} == {"job.default.lost"}


def test_a_job_that_moved_depends_on_both_trees():
    """It waited where another one ran, and was then sent to a queue of another tree."""
    world = Cell()
    for queue in ("left", "right", "elsewhere"):
        world.queue(queue, 2)
    for name, queue in (("before", "left"), ("x", "left"), ("beside", "right"), ("x", "right")):
        world.submit(name, queue, 2, elastic=False).settle()
    world.submit("stranger", "elsewhere", 2, elastic=False).settle()
    world.message("beside", "JobFinished", {"success": True, "attempt": 1}).settle()
    whole = world.log
    closure = Closure(ListSource(whole), "x")
    part = Extract(ListSource(whole), closure).cut()

    assert closure.members == {"default/before", "default/x", "default/beside"}
    assert told(part, "x") == told(whole, "x")
    assert "WorkloadUpdated" in [kind for _, kind, _ in told(part, "x")]
    assert "Admitted" in [kind for _, kind, _ in told(part, "x")]
    left = {e.suffix for e in part if e.suffix.startswith("job.")}
    assert left == {"job.default.before", "job.default.x", "job.default.beside"}
    assert all(check(ListSource(part), decider).divergence is None for decider in deciders())


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
