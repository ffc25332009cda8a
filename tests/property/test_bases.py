"""A log that was cut behind a base says what the whole one says, wherever it is cut."""

import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.core.checks.decider import AdmissionChecks
from sluice.events.commit import Step
from sluice.log.cell import CellFold
from sluice.log.contract import Entry
from sluice.replay.lint.lint import lint
from sluice.replay.source.source import ListSource
from sluice.replay.source.time_travel import deciders, fold_at
from sluice.replay.verify.whole_log import check_all
from sluice.retention.base_making import make, verify
from sluice.retention.errors import NoStateYetError
from tests.property.test_changing_families import Changing
from tests.property.test_checked_cell import History
from tests.support.cut_log import cut
from tests.support.examples import examples
from tests.support.memory_log import World


def mark(world: World, chance: random.Random) -> None:
    """Let services say how far they have come, as they do after 1,000 messages without a decision."""
    for writer, service in world.services.items():
        if chance.random() < 0.3:
            world.step(writer, chance.choice([1, 3, None]))
            world.commit(writer, [Step(upto=service.upto, at=world.now)])


def checked_jobs(seed: int) -> list[Entry]:
    """Play a cell with admission checks whose services lag."""
    history, chance = History(seed), random.Random(seed)
    for _ in range(150):
        history.act()
        mark(history.cell, chance)
    history.cell.settle_all()
    return list(history.cell.log)


def families(seed: int) -> list[Entry]:
    """Play families of variants while their queues change."""
    changing, chance = Changing(seed), random.Random(seed)
    changing.world.serve(AdmissionChecks())
    for _ in range(40):
        changing.act()
        mark(changing.world, chance)
    return list(changing.world.log)


@pytest.mark.parametrize("play", [checked_jobs, families])
@settings(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_a_cut_log_says_the_same(play: Callable[[int], list[Entry]], seed: int) -> None:
    """States at its end, decisions decided again, and invariants: all as of the whole log."""
    entries = play(seed)
    whole = ListSource(entries)
    try:
        made = make(whole, random.Random(seed).randint(whole.end // 4, whole.end))
    except NoStateYetError:
        return
    verify(whole, made)

    rest = cut(entries, made)

    assert 1 < rest.first == made.base.begin <= made.base.seq + 1
    for decider in (*deciders(), CellFold()):
        expected, found = fold_at(whole, decider, whole.end), fold_at(rest, decider, whole.end)
        assert decider.dump(found.state) == decider.dump(expected.state), decider.writer
        assert (found.upto, found.own, found.at) == (expected.upto, expected.own, expected.at)
    steps = {checked.writer: checked for checked in check_all(whole, [(d, None) for d in deciders()])}
    for checked in check_all(rest, [(decider, None) for decider in deciders()]):
        assert checked.divergence is None
        assert checked.steps <= steps[checked.writer].steps
    assert lint(rest)[0] == []
