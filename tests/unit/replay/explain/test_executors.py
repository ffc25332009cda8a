"""What the log says of executors: the same from the start, and from any snapshot on."""

from typing import Any

from sluice.core.slices.decider import SliceAggregator
from sluice.events.base import JobKey
from sluice.log.decider import Decider
from sluice.log.fold import Fold
from sluice.replay.explain.executors import Claim, Executors
from sluice.replay.source.source import ListSource
from sluice.replay.source.time_travel import fold_at, scheduler_at
from tests.support.family_world import FamilyWorld, cell, cluster_queue, job


class Stored(ListSource):
    """With a snapshot of what was folded up to one sequence."""

    upto = 0

    def snapshot(self, decider: Decider[Any], upto: int) -> Fold[Any] | None:
        if not 0 < self.upto <= upto:
            return None
        fold = fold_at(ListSource(self.entries), decider, self.upto)
        fold.state = decider.load(decider.dump(fold.state))
        return fold


def changing() -> FamilyWorld:
    """Jobs are claimed, are ready, stop, are deleted and made again; executors come and go."""
    world = cell(cluster_queue({"od": 8}, {}))
    for name in ("x", "y"):
        world.message(f"presence.agent.{name}", "Seen", {}).settle()
    for name in ("a", "b", "c"):
        world.submit(name).settle()
    world.report("a", "JobPodsReady", executor="x", ready=False).settle()
    world.report("b", "JobPodsReady").settle()
    world.message("presence.agent.y", "Lost", {}).settle()
    world.message("job.default.a", "JobDeleted", {}).settle()
    world.message("job.default.c", "JobSubmitted", job("c", 1, 2)).settle()
    world.submit("d").settle()
    world.report("d", "JobPodsReady", executor="x", ready=False).settle()
    world.settle_all()
    world.submit("a").settle()
    return world


def said(source: ListSource, seq: int) -> tuple[object, ...]:
    """Return all that is said of executors as of *seq*, but since when."""
    executors, state = Executors(source, seq), scheduler_at(ListSource(source.entries), seq).state
    claims = {key: executors.claim(state, w) for key, w in sorted(state.world.workloads.items())}
    named = {key: claim and claim.executor for key, claim in claims.items()}
    return [executors.there(name) for name in ("x", "y", "z")], dict(executors.told), named


def test_a_snapshot_changes_nothing_of_what_is_said() -> None:
    world = changing()
    source = Stored(world.log)
    settled = [
        seq
        for seq in range(1, source.end + 1)
        if world.log[seq - 1].suffix == "slices"
        and not SliceAggregator().decide(
            (fold := fold_at(ListSource(world.log), SliceAggregator(), seq)).state, fold.at
        )
    ]
    assert len(settled) > 10
    for seq in range(1, source.end + 1):
        source.upto = 0
        plain = said(source, seq)
        for source.upto in [at for at in settled if at <= seq]:
            assert said(source, seq) == plain, (seq, source.upto)


def test_what_is_said_follows_the_log() -> None:
    world = changing()
    source = ListSource(world.log)
    state = scheduler_at(source, source.end).state
    executors = Executors(source, source.end)
    assert (executors.there("x"), executors.there("y"), executors.anybody()) == (True, False, True)
    jobs = world.services["slices"].state.jobs
    claim = executors.claim(state, state.world.workloads[jobs[JobKey("default/d")].record.key])
    assert isinstance(claim, Claim)
    assert (claim.executor, claim.since is not None) == ("x", True)
    again = jobs[JobKey("default/a")].record.key
    assert executors.claim(state, state.world.workloads[again]) is None, "of one of the same name"
    assert executors.told == {}
    deleted = next(e.seq for e in world.log if e.suffix == "job.default.a" and b"JobDeleted" in e.payload)
    told = Executors(source, deleted + 1).told
    assert list(told.values()) == ["its job was deleted"]
