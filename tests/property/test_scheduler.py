"""Whatever happens, the scheduler keeps its promises."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.core.scheduler.decider import Scheduler
from tests.support.examples import examples
from tests.support.scheduler_history import Input, Player, Step, play

RANDOM = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


def replay(log: list[Input | Step], *, cut: int | None = None) -> Player:
    """Fold a log; at *cut* go through a snapshot."""
    scheduler = Scheduler()
    player = Player()
    for index, entry in enumerate(log):
        if index == cut:
            player.state = scheduler.load(scheduler.dump(player.state))
        if isinstance(entry, Input):
            scheduler.apply(player.state, entry.event, entry.seq, entry.at)
            continue
        for event in entry.events:
            scheduler.apply(player.state, event, entry.upto, entry.at)
    return player


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
    assert scheduler.dump(replay(player.log).state) == whole
    settled = [i for i, entry in enumerate(player.log) if isinstance(entry, Input) and _settled(player, i)]
    cut = data.draw(st.sampled_from(settled))
    assert scheduler.dump(replay(player.log, cut=cut).state) == whole
    assert scheduler.dump(scheduler.load(whole)) == whole


def _settled(player: Player, index: int) -> bool:
    """Snapshots are taken in settled states only: right before an input that follows a decision."""
    return index == 0 or isinstance(player.log[index - 1], Step)


@RANDOM
@given(st.data())
def test_deciding_again_decides_the_same(data: st.DataObject) -> None:
    """At every step of the log, deciding again gives its events; in the end none, from a snapshot too."""
    scheduler = Scheduler()
    player = play(data, data.draw(st.integers(1, 10)))
    state = player.decide_again()
    assert scheduler.decide(state, player.now) in ((), [])
    assert scheduler.decide(scheduler.load(scheduler.dump(state)), player.now) in ((), [])
