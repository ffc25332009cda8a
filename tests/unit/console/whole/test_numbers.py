"""Each number of the console is the command line's, at any sequence of any log, however it is come by."""

import random
from typing import Any

import msgspec
import pytest

from sluice.console.past import Past
from sluice.console.quota import QuotaTree
from sluice.console.rows import queue_row
from sluice.core.scheduler.decider import Scheduler
from sluice.readmodel.objects import keys, render
from sluice.readmodel.world import World
from sluice.replay.source.source import ListSource
from sluice.replay.source.time_travel import fold_at
from sluice.replay.views.describe import job_plain
from sluice.replay.views.overview import look, queues_of
from tests.support.shown_usage import wrong_usage
from tests.unit.replay.views.whole.test_cell import STORIES


@pytest.fixture(params=STORIES, ids=lambda story: story.__name__)
def log(request: pytest.FixtureRequest) -> ListSource:
    return ListSource(request.param())


def some(log: ListSource, count: int = 12) -> list[int]:
    """Sequences in no order: first, last, and others."""
    chosen = [log.first, log.end, *random.sample(range(log.first, log.end + 1), min(count, log.end - 1))]
    random.shuffle(chosen)
    return chosen


def test_quota_is_that_of_replay_state(log: ListSource) -> None:
    """Nominal, used, borrowed, promised and free of each queue are what `sluice replay state --at` says."""
    past = Past(log, kept=2, spacing=7)
    for seq in some(log):
        state = fold_at(log, Scheduler(), seq).state
        expected = queues_of(state)
        shown = past.ask(seq, lambda world: _queues(world))
        assert not past.ask(seq, lambda world, state=state: wrong_usage(world.view, state))
        for name, queue in expected.items():
            row = shown[name]
            quota = {f"{q['flavor']}/{q['resource']}": q for q in row["quota"]}
            for place, numbers in queue["quota"].items():
                told = quota[place]
                assert told["nominal"]["text"] == numbers["nominal"], (seq, name, place)
                assert told["used"]["text"] == numbers["used"], (seq, name, place)
                assert told["borrowed"]["text"] == numbers["borrowed"], (seq, name, place)
                assert told["free"]["text"] == numbers["available"], (seq, name, place)
                assert told["promised"]["text"] == numbers.get("promised", "0"), (seq, name, place)


def _queues(world: World) -> dict[str, Any]:
    tree = QuotaTree(world)
    rows = [queue_row(world, tree, queue) for queue in world.view.cluster_queues.values()]
    return {row.name: msgspec.to_builtins(row) for row in rows}


def test_jobs_are_those_of_replay_state(log: ListSource) -> None:
    """Phase, reason and message of each job are the same at each sequence."""
    past = Past(log, kept=2, spacing=5)
    for seq in some(log, 6):
        expected = look(log, seq, ["jobs"])["jobs"]
        shown = past.ask(seq, lambda w: {key: render(w, "Job", key) for key in keys(w, "Job")})
        for key, job in expected.items():
            status = (shown[key] or {})["status"]
            if status["phase"] in ("Submitted", "Rejected"):
                continue
            fields = ["phase", "queue", "priority", "attempts", "evictions", "flavors", "workload"]
            if not status.get("wantedPods"):
                # Of a job that is to grow, `get` says why it has not yet; `replay state` does not.
                fields += ["reason", "message"]
            for field in fields:
                assert (status.get(field) or None) == (job.get(field) or None), (seq, key, field)
        assert past.ask(seq, lambda w: {k: job_plain(w.cell, j) for k, j in w.view.jobs.items()}) == {
            key: job for key, job in expected.items() if job["phase"] != "Rejected"
        }


def test_a_state_is_the_same_however_it_is_come_by(log: ListSource) -> None:
    """Stepped to from the state before, from a base, or folded from the start: each object is the same."""
    past = Past(log, kept=3, spacing=4)
    for seq in some(log, 20):
        world = World()
        for entries in log.read(until=seq):
            world.fold(entries)
        for kind in ("Job", "Workload", "ClusterQueue", "Cohort", "Variant", "Slice"):
            fresh = {key: render(world, kind, key) for key in keys(world, kind)}
            assert (
                past.ask(seq, lambda w, kind=kind: {key: render(w, kind, key) for key in keys(w, kind)})
                == fresh
            ), (seq, kind)


def test_what_is_lent_is_what_is_borrowed(log: ListSource) -> None:
    """In each tree, lenders lend as much as borrowers borrow of what is there, and none more than it has."""
    past = Past(log)
    for seq in some(log, 8):
        tree = past.ask(seq, QuotaTree)
        for name, node in tree.tree.cluster_queues.items():
            for row in tree.rows(node):
                assert row.own.value + row.borrowed.value == row.used.value
                assert 0 <= row.lent.value <= max(0, row.nominal.value - row.used.value), (seq, name)
        lent: dict[Any, int] = {}
        for lender, _, fr, lot in tree.loans:
            lent[lender, fr] = lent.get((lender, fr), 0) + lot
        assert lent == tree.lent
