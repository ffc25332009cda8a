"""Whatever happens, the scheduler keeps its promises."""

from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.core.scheduler.decider import Scheduler
from tests.support.examples import examples
from tests.support.scheduler_history import Part, play

RANDOM = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


def replay(log: Sequence[Part], *, cut: int | None = None) -> bytes:
    """Fold a log, at *cut* through a snapshot, and return the snapshot at its end."""
    scheduler = Scheduler()
    state = scheduler.initial()
    for index, part in enumerate(log):
        if index == cut:
            state = scheduler.load(scheduler.dump(state))
        for event in part.events:
            scheduler.apply(state, event, part.upto, part.at)
    return scheduler.dump(state)


@RANDOM
@given(st.data())
def test_histories_keep_all_invariants(data: st.DataObject) -> None:
    """Quota is never exceeded, nobody is lost or counted twice, and every decision settles."""
    play(data, data.draw(st.integers(1, 15)))


@RANDOM
@given(st.data())
def test_replay_resumes_anywhere(data: st.DataObject) -> None:
    """Folding the log anew, or a snapshot and the rest of the log, gives the same state byte for byte."""
    scheduler = Scheduler()
    player = play(data, data.draw(st.integers(1, 12)))
    whole = scheduler.dump(player.state)
    log = list(player.parts())
    assert replay(log) == whole
    # Snapshots are taken in settled states only: right before an input that follows a decision.
    settled = [i for i, part in enumerate(log) if not part.own and (i == 0 or log[i - 1].own)]
    cut = data.draw(st.sampled_from(settled))
    assert replay(log, cut=cut) == whole
    assert scheduler.dump(scheduler.load(whole)) == whole


@RANDOM
@given(st.data())
def test_deciding_again_decides_the_same(data: st.DataObject) -> None:
    """At every step of the log, deciding again gives its events; in the end none, from a snapshot too."""
    scheduler = Scheduler()
    player = play(data, data.draw(st.integers(1, 10)))
    state = player.decide_again()
    assert scheduler.decide(state, player.now) in ((), [])
    assert scheduler.decide(scheduler.load(scheduler.dump(state)), player.now) in ((), [])
