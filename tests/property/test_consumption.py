"""Consumption folded event by event is what one gets by looking at the whole log and multiplying."""

from collections.abc import Iterable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.core.budgets.consumption import QUARTER_US, Account, Consumption, Series, dump, load
from sluice.core.views.view import View
from sluice.events.base import Event, Micros
from sluice.events.scheduler import Admitted, QuotaReleased
from tests.support.elastic_cell import Cell
from tests.support.examples import examples
from tests.support.memory_log import START
from tests.support.scheduler_history import play

from .test_elastic import JOBS, STEPS
from .test_elastic import cell as elastic_cell
from .test_elastic import play as play_elastic

SLOW = 137_000
"""Histories tick in milliseconds; stretched so that a tick is a few minutes, quarters of an hour end."""
RANDOM = settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)

Timed = list[tuple[Event, int, Micros]]


def by_hand(log: Timed, start: Micros, end: Micros) -> dict[Account, int]:
    """Return what was consumed: after every event what all admitted workloads hold, times how long."""
    view = View()
    total: dict[Account, int] = {}
    for (event, seq, at), following in zip(log, [*(at for _, _, at in log[1:]), end], strict=True):
        view.apply(event, seq, at)
        span = min(following, end) - max(at, start)
        if span <= 0:
            continue
        for workload in view.workloads.values():
            if workload.admitted_at is None or not workload.holds_quota or workload.cluster_queue is None:
                continue
            record = workload.record
            for (flavor, resource), amount in workload.charge.items():
                account = Account(
                    record.namespace, record.queue_name, workload.cluster_queue.name, flavor, resource
                )
                total[account] = total.get(account, 0) + amount * span
    return {account: amount for account, amount in total.items() if amount}


def timed(world: Cell) -> Timed:
    return [(event, seq, (at - START) * SLOW) for event, seq, at in world.dated()]


def folded(log: Timed, cuts: Iterable[int] = ()) -> Consumption:
    state = Consumption()
    for number, (event, _, at) in enumerate(log):
        if number in cuts:
            state = load(dump(state))
        state.apply(event, at)
    return state


def between(state: Consumption, start: Micros, end: Micros) -> dict[Account, int]:
    found = {account: one.total(end) - one.total(start) for account, one in state.series.items()}
    return {account: amount for account, amount in found.items() if amount}


def check(log: Timed, data: st.DataObject) -> None:
    end = max(at for _, _, at in log) + data.draw(st.integers(0, 3 * QUARTER_US))
    quarters = end // QUARTER_US
    start = data.draw(st.integers(0, quarters)) * QUARTER_US
    cuts = data.draw(st.sets(st.integers(0, len(log)), max_size=3))
    state = folded(log, cuts)

    assert between(state, start, end) == by_hand(log, start, end)
    assert dump(state) == dump(folded(log))
    assert dump(load(dump(state))) == dump(state)
    assert set(state.running) == {
        key for key, held in state.workloads.items() if held.admitted_at is not None
    }


@RANDOM
@given(st.data())
def test_with_preemption_checks_and_edits(data: st.DataObject) -> None:
    player = play(data, data.draw(st.integers(1, 12)))
    check([(event, part.upto, part.at * SLOW) for part in player.parts() for event in part.events], data)


@RANDOM
@given(STEPS.map(lambda steps: [step for step in steps if step[0] != "reclaim"][:20]), st.data())
def test_with_slices_that_grow_and_shrink(steps: list[tuple[Any, ...]], data: st.DataObject) -> None:
    world: Cell = elastic_cell()
    for job in JOBS:
        world.submit(job, "left" if job != "c" else "right", 2)
    world.settle()
    for step in steps:
        play_elastic(world, step)
        world.settle()
    world.verify()
    check(timed(world), data)


def test_the_histories_consume_something() -> None:
    """The properties above are about something: a simple history admits, consumes, and lets go."""
    world = elastic_cell()
    world.submit("a", "left", 4).settle()
    world.message("a", "JobFinished", {}).settle()
    log = timed(world)

    assert world.events(Admitted)
    (account,) = folded(log).series
    assert account == Account("default", "left", "left", "default", "cpu")
    assert folded(log).series[account].level == 0
    assert folded(log).series[account].total(log[-1][2]) > 0
    assert not world.events(QuotaReleased)


@given(st.lists(st.tuples(st.integers(0, 40 * QUARTER_US), st.integers(-5, 5)), max_size=60), st.data())
def test_totals_are_exact_at_every_quarter(changes: list[tuple[int, int]], data: st.DataObject) -> None:
    """What is kept of the past gives the exact total at the end of every quarter of an hour."""
    series = Series()
    for at, delta in sorted(changes):
        series.change(delta, at)
    at = data.draw(st.integers(0, 41)) * QUARTER_US
    if (changes and at < max(changes)[0]) or not changes:
        assert series.total(at) == sum(delta * (at - when) for when, delta in changes if when < at)
    else:
        assert series.total(at) == sum(delta * (at - when) for when, delta in changes)
