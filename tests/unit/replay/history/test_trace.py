"""The chain of causes: from a job's event to the last consequence, and back, through executors and checks."""

from collections.abc import Callable

import pytest

from sluice.protocol.subjects import COMMITS
from sluice.replay.history.causes import happenings
from sluice.replay.history.trace import trace
from sluice.replay.source.source import FileSource, ListSource, Source
from tests.unit.replay.incident import EXAMPLE
from tests.unit.replay.lint.test_invariants import elastic, families
from tests.unit.replay.simulate.test_what_if import checked

LOGS: dict[str, Callable[[], Source]] = {
    "incident": lambda: FileSource(EXAMPLE),
    "families": lambda: ListSource(families()),
    "elastic": lambda: ListSource(elastic()),
    "checked": lambda: ListSource(checked()),
}


def everything(source):
    return [h for entries in source.read() for h in happenings(entries)]


@pytest.mark.parametrize("name", LOGS)
def test_every_event_of_a_service_names_its_cause(name):
    """Also those that only time brought about; configuration alone is people's."""
    for happening in everything(LOGS[name]()):
        if happening.writer in COMMITS and happening.writer != "config":
            assert 0 < happening.cause < happening.seq, happening


@pytest.mark.parametrize("name", LOGS)
def test_every_chain_leads_back_to_the_outside(name):
    """The first causes of whatever a service says are messages from outside, or configuration."""
    source = LOGS[name]()
    for happening in everything(source):
        first = trace(source, happening.seq, limit=1, back=100_000).causes[0]
        assert first.writer in ("config", "job", "verdict", "presence"), happening


def test_a_submission_leads_to_the_last_consequence():
    """The rollout's arrival comes to what it preempted, to their stop, and to its own admission and end."""
    source = FileSource(EXAMPLE)
    submitted = next(h for h in everything(source) if h.data.get("job") == "default/api-rollout")
    found = trace(source, submitted.seq, limit=1000).consequences
    said = [(h.type, h.data.get("workload") or h.data.get("job")) for _, h in found]

    assert ("Preempted", "default/job-train-4-45d14") in said
    assert ("JobStopped", "default/train-4") in said, "an executor's answer belongs to what it answers"
    assert ("Admitted", "default/job-api-rollout-fb9b3") in said
    assert ("JobFinished", "default/api-rollout") in said
    assert found[0][0] == 1


def test_a_verdict_belongs_to_its_request():
    """Back from an admission by way of the verdict to the submission."""
    source = ListSource(checked())
    admitted = next(h for h in everything(source) if h.type == "Admitted")
    chain = [h.type for h in trace(source, admitted.seq, about="quick").causes]
    order = [
        "JobSubmitted",
        "WorkloadCreated",
        "QuotaReserved",
        "ChecksRequested",
        "CheckVerdict",
        "ChecksReady",
    ]
    places = [chain.index(kind) for kind in order]
    assert places == sorted(places)


@pytest.mark.parametrize("name", LOGS)
def test_of_many_causes_the_nearest_are_kept(name):
    """A long way back is cut where it is said to be, and what is left is its end."""
    source = LOGS[name]()
    last = everything(source)[-1]
    whole = trace(source, last.seq, limit=1, back=100_000)
    own = sum(1 for h in whole.causes if h.seq == last.seq)
    assert not whole.cut
    for back in (1, 3, len(whole.causes) - own):
        part = trace(source, last.seq, limit=1, back=back)
        assert part.cut == (back < len(whole.causes) - own)
        assert part.causes == whole.causes[-(back + own) :]


def test_one_of_many_in_a_commit_can_be_asked_for():
    """A commit that is about two jobs is cut down to the one that is meant."""
    source = FileSource(EXAMPLE)
    preempted = next(h for h in everything(source) if h.type == "Preempted")
    whole, part = trace(source, preempted.seq), trace(source, preempted.seq, about="train-4")
    assert any("train-3" in str(h.data) for _, h in whole.consequences)
    assert not any(h.data.get("job") == "default/train-3" for _, h in part.consequences)
    assert part.consequences
