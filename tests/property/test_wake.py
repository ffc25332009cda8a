"""Nobody stays parked who could get in: what the wake filter may and may not pass over (SC2).

With and without the filter, histories may differ: a class that cannot get in, but is looked at, holds up
the next of its queue for a turn, and another queue can come first. So these do not compare histories. They
say that the filter passes over nobody whom a look would have helped, and that no wake leaves anybody behind.
"""

from typing import Any

import pytest

from sluice.core.cycle import cycle, woken
from sluice.core.cycle.entry import Entry
from sluice.core.cycle.nomination import nominate
from sluice.core.cycle.requeue_filter import may_fit
from sluice.core.cycle.withheld_quota import always_reclaims
from sluice.core.queueing.pending_queue import EquivalenceClass, PendingQueue
from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.world.model import ClusterQueue, World
from sluice.events.base import Micros, WorkloadKey
from sluice.events.scheduler import QuotaReserved
from tests.support.contended_history import Contended
from tests.support.scheduler_history import Player

ACTIONS = 60
SEEDS = range(12)
LEFT_BEHIND = (128,)
"""Where somebody once stayed parked beside a promise."""
WAITING = (*range(100, 108), 108)
"""Executors that take their time."""


def test_a_look_would_not_have_helped_whom_the_filter_passes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    passed_over = 0

    def checked(world: World, cq: ClusterQueue, peers: EquivalenceClass) -> bool:
        nonlocal passed_over
        found = may_fit(world, cq, peers)
        if not found:
            passed_over += 1
            entry = Entry(peers.head(), peers.queue, cq)
            assert not nominate(world, entry, may_defer=False) or not entry.proposal.is_possible()
        return found

    for module in (cycle, woken):
        monkeypatch.setattr(module, "may_fit", checked)
    for seed in SEEDS:
        Contended(seed).play(ACTIONS)
    assert passed_over


@pytest.mark.parametrize("seed", [*SEEDS, *LEFT_BEHIND])
def test_nobody_stays_parked_who_fits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked at alone, no parked class would get free quota in a settled state.

    One reason to wait for others is left out: quota kept by queues that cannot be sure to get it back. Who
    waits for victims keeps what it waits for, and nothing else (CA6).
    """
    settle = Player.settle

    def settle_and_look(player: Player) -> None:
        settle(player)
        assert not _left_behind(player.state, player.now)

    monkeypatch.setattr(Player, "settle", settle_and_look)
    Reclaiming(seed).play(ACTIONS)


@pytest.mark.parametrize("seed", WAITING)
def test_nobody_waits_for_the_victims_of_others(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same without checks, where preemptors wait in their queues for victims that stop late or never."""
    settle = Player.settle
    waited = 0

    def settle_and_look(player: Player) -> None:
        nonlocal waited
        settle(player)
        waited += any(queue.waiting for queue in player.state.pending.queues.values())
        assert not _left_behind(player.state, player.now)

    monkeypatch.setattr(Player, "settle", settle_and_look)
    Preempting(seed).play(2 * ACTIONS)
    assert waited


class Reclaiming(Contended):
    """All queues get back what they lend, so that none keeps quota for those that it cannot serve."""

    def queue(self, name: str) -> dict[str, Any]:
        manifest: dict[str, Any] = super().queue(name)
        manifest["spec"]["preemption"]["reclaimWithinCohort"] = "Any"
        return manifest


class Preempting(Reclaiming):
    """Nothing has to pass checks, and few of those that are told to stop do."""

    def queue(self, name: str) -> dict[str, Any]:
        manifest: dict[str, Any] = super().queue(name)
        del manifest["spec"]["admissionChecksStrategy"]
        return manifest


def _left_behind(state: SchedulerState, now: Micros) -> list[WorkloadKey]:
    scheduler = Scheduler()
    state = scheduler.load(scheduler.dump(state))
    found: list[WorkloadKey] = []
    for queue in list(state.pending.queues.values()):
        tree = queue.tree
        assert tree is not None
        queues = state.world.cluster_queues
        assert all(always_reclaims(queues[name].spec.preemption) for name in tree.members)
        if queue.stopped:
            continue
        for peers in _next_parked(queue):
            kept = (peers.aside, peers.reserves, not peers.indexed and not peers.aside)
            key = peers.head().key
            state.pending.activate(peers)
            for event in scheduler.decide(state, now):
                if isinstance(event, QuotaReserved) and event.workload == key:
                    found += () if event.preemptions_pending else (key,)
            state.pending.park(peers, aside=kept[0], reserves=kept[1], hopeless=kept[2])
    return found


def _next_parked(queue: PendingQueue) -> list[EquivalenceClass]:
    """Return the parked classes whose turn it may be."""
    blocker = queue.blocker()
    if queue.strict:
        return [] if blocker is None else [blocker]
    return list(queue.parked)
