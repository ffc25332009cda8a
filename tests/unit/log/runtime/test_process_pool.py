"""Child processes: results and errors come back, and nothing else does."""

import os
import signal

import pytest

from sluice.log.fold import FoldError
from sluice.log.runtime.process_pool import ChildLostError, in_copy, side_by_side


def test_what_a_child_changes_stays_with_it():
    """The result holds the change, this process does not."""
    table = {"a": 1}

    def change():
        table["b"] = 2
        return table

    assert in_copy(change) == {"a": 1, "b": 2}
    assert table == {"a": 1}


def test_results_come_in_order_and_may_be_large():
    """Each of several processes says its own, however much it is."""
    sizes = (1, 3 << 20, 0, 70_000)
    results = side_by_side([lambda _, n=n: b"x" * n for n in sizes])

    assert [len(result) for result in results] == list(sizes)


def test_progress_is_that_of_the_slowest():
    """It ends at the last thing told, and never tells more than the slowest has done."""
    told = []

    def work(progress):
        for n in range(1, 4):
            progress(n)

    side_by_side([work, work], told.append)

    assert all(n <= 3 for n in told)


def test_errors_come_through_with_all_they_know():
    """Even those whose initialiser takes other arguments than the error holds."""

    def fails():
        raise FoldError("scheduler", 7, "config", "ObjectApplied", "no")

    with pytest.raises(FoldError, match="config at seq 7, ObjectApplied: no") as found:
        in_copy(fails)
    assert found.value.seq == 7


def test_a_killed_child_is_no_result():
    """Whoever waits for it is told, instead of getting nothing."""
    with pytest.raises(ChildLostError):
        in_copy(lambda: os.kill(os.getpid(), signal.SIGKILL))


def test_more_works_than_processes_are_all_done():
    """In order, each once, however few are at work at a time; this process works meanwhile."""
    steps = []

    def own():
        for n in range(5):
            steps.append(n)
            yield

    assert side_by_side([lambda _, n=n: n for n in range(7)], meanwhile=own(), at_once=2) == list(range(7))
    assert steps == list(range(5))


def test_what_goes_wrong_meanwhile_ends_the_works():
    """Nobody waits for them."""

    def own():
        yield
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        side_by_side([lambda _: signal.pause()], meanwhile=own())
