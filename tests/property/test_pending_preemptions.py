"""Reservations with preemptions pending keep their promises, whatever happens (AC6, AC7).

`Player` checks the invariants after every step: no more is reserved than fits together, neither now nor with
all pending preemptions done; whoever waits for victims waits for live ones.
"""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sluice.core.scheduler.decider import Scheduler
from sluice.core.views import View
from sluice.events.checks import ChecksReady, PreemptionsAllowed
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.scheduler import PendingPreemptionsIssued, Preempted, QuotaReserved
from sluice.events.slices import WorkloadStopped
from tests.support.contended_history import Contended
from tests.support.examples import examples
from tests.support.shown_usage import wrong_usage
from tests.support.view_invariants import violations

RANDOM = settings(max_examples=examples(60), deadline=None)
SEEDS = st.integers(0, 10**9)
ACTIONS = st.integers(10, 60)


@RANDOM
@given(SEEDS, ACTIONS)
def test_deciding_again_decides_the_same(seed: int, actions: int) -> None:
    """At every step, from a snapshot too; and a snapshot of what was loaded is the same."""
    Contended(seed).play(actions).decide_again()


@RANDOM
@given(SEEDS, ACTIONS)
def test_nobody_is_preempted_before_checks_allow_it(seed: int, actions: int) -> None:
    """Whoever gets quota with preemptions pending evicts nobody that runs; only issuing them does."""
    player = Contended(seed).play(actions)
    state = Scheduler().initial()
    allowed: dict[str, None] = {}
    edited = False
    for entry in player.parts():
        # Where nobody is left to preempt, nobody need allow it.
        issued = [e.workload for e in entry.events if isinstance(e, PendingPreemptionsIssued) and e.victims]
        promised = [
            e.workload for e in entry.events if isinstance(e, QuotaReserved) and e.preemptions_pending
        ]
        for event in entry.events:
            edited = edited or isinstance(event, ObjectApplied | ObjectDeleted)
            if isinstance(event, PreemptionsAllowed | ChecksReady):
                allowed[event.workload] = None
            if isinstance(event, Preempted):
                victim = state.world.workloads[event.workload]
                assert event.preemptor not in promised or victim.admitted_at is None
                waits = state.world.workloads[event.preemptor].preemptions
                assert bool(waits) == (event.preemptor in issued)
        # An edit can lift a policy; then nobody has to allow anything.
        assert edited or all(key in allowed for key in issued)
        for event in entry.events:
            if isinstance(event, QuotaReserved):
                allowed.pop(event.workload, None)
            Scheduler().apply(state, event, entry.upto, entry.at)


@RANDOM
@given(SEEDS, ACTIONS)
def test_people_are_shown_what_is_promised_apart_from_what_is_used(seed: int, actions: int) -> None:
    """Whenever they look: what is reserved beside those who are to be preempted is not in use yet."""
    player = Contended(seed).play(actions)
    scheduler, view = Scheduler(), View()
    state = scheduler.initial()
    for entry in player.parts():
        for event in entry.events:
            scheduler.apply(state, event, entry.upto, entry.at)
            view.apply(event, entry.seq, entry.at)
        assert not (wrong := [*wrong_usage(view, state), *violations(view)]), wrong


@RANDOM
@given(SEEDS, ACTIONS)
@example(6550, 10)  # one that must not borrow: what it lacks is not what its cohort lacks
def test_every_reservation_ends_when_the_checks_answer(seed: int, actions: int) -> None:
    """Admitted or given up: nobody waits for ever once checks are Ready and victims have stopped."""
    player = Contended(seed).play(actions)
    workloads = player.state.world.workloads
    for _ in range(200):
        waiting = [k for k, w in workloads.items() if w.assignment is not None and w.admitted_at is None]
        if not waiting:
            return
        for key in sorted(k for k, w in workloads.items() if w.evicted_at is not None and not w.stopped):
            player.put(WorkloadStopped(cause=0, workload=key))
        for key in sorted(waiting):
            player.put(ChecksReady(cause=0, workload=key, attempt=workloads[key].reservations))
        player.settle()
    raise AssertionError(f"still waiting: {waiting}")
