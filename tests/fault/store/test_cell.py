"""What counts as a job that ran twice, when an older log was put back meanwhile and when not."""

import pytest

from tests.fault.store.cell import FORGOTTEN_S, Run, StoreCell


def runs(*spans: tuple[float, float | None], attempts: tuple[int, int] = (1, 1)) -> list[Run]:
    return [
        Run("j", "u", attempt, f"e{number}", begin, end)
        for number, (attempt, (begin, end)) in enumerate(zip(attempts, spans, strict=True))
    ]


def cell_of(found: list[Run], *restored: float) -> StoreCell:
    cell = StoreCell.__new__(StoreCell)
    cell.runs, cell.restored = found, list(restored)
    return cell


@pytest.mark.parametrize(
    ("restored", "double", "apart"),
    [
        ((), 1, 0),
        ((15.0,), 0, 1),
        ((5.0,), 1, 0),  # before both
        ((25.0,), 1, 0),  # after both
    ],
)
def test_only_what_had_begun_before_the_log_was_put_back_is_set_apart(
    restored: tuple[float, ...], double: int, apart: int
) -> None:
    found, forgotten = cell_of(runs((10.0, 30.0), (20.0, 40.0), attempts=(1, 2)), *restored).overlapping()
    assert (len(found), len(forgotten)) == (double, apart)


def test_a_run_that_goes_on_long_after_the_log_was_put_back_is_a_double() -> None:
    found, forgotten = cell_of(runs((10.0, 15.0 + FORGOTTEN_S + 1), (20.0, 40.0)), 15.0).overlapping()
    assert (len(found), len(forgotten)) == (1, 0)


def test_an_attempt_that_is_begun_twice_is_a_double() -> None:
    assert len(cell_of(runs((10.0, 15.0), (20.0, 40.0))).overlapping()[0]) == 1
    assert cell_of(runs((10.0, 15.0), (20.0, 40.0), attempts=(1, 2))).overlapping() == ([], [])
