"""A fixed set of simulated histories of the whole cell; `make sim` plays new ones."""

import os
from itertools import count

import pytest

from .known import known
from .many import many
from .mended import MENDED, Mutant
from .mutants import ROOT
from .run import Outcome, Run, quiet
from .scenes import SCENES, scene_of

STEPS = 2_000
SEEDS = range(1, 1 + int(os.environ.get("SLUICE_SEEDS", "50")))
OPENINGS = [next(seed for seed in count(1) if scene_of(seed) == name) for name in SCENES]


@pytest.fixture(autouse=True)
def silence() -> None:
    quiet()


@pytest.mark.parametrize("seed", sorted({*SEEDS, *OPENINGS}))
def test_what_must_hold_holds_in_every_history(seed: int) -> None:
    """Safety, liveness and answers, whatever fails, lags, or is edited meanwhile."""
    outcome = Run(seed, STEPS).play()
    if fault := known(outcome):
        pytest.xfail(f"{fault}: {outcome}")
    assert not outcome.invariant, str(outcome)
    assert outcome.run is not None
    assert outcome.steps == outcome.run.steps


@pytest.mark.parametrize("mutant", MENDED, ids=lambda mutant: mutant.name)
def test_every_mend_can_still_be_taken_out(mutant: Mutant) -> None:
    """The lines that a mutant replaces stand in the code once; else `mutants` would try the code as it is."""
    for file, text, _ in mutant.changes:
        assert (ROOT / file).read_text().count(text) == 1, f"{file}: {text}"


def test_new_seeds_are_played_until_it_is_enough() -> None:
    totals = [total for total, _ in many(None, 50, enough=200, workers=2)]
    assert totals
    assert totals[-1].steps >= 200
    assert sum(totals[-1].coverage.seen.values()) > 0


def test_a_process_that_dies_is_reported_and_another_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(self: Run) -> Outcome:
        if self.seed == 2:
            os._exit(3)
        return play_on(self)

    play_on = Run.play
    monkeypatch.setattr(Run, "play", dies)
    found = {outcome.seed: str(outcome) for _, outcome in many([1, 2, 3], 20, workers=1)}
    assert set(found) == {1, 2, 3}
    assert "exit code 3" in found[2]
