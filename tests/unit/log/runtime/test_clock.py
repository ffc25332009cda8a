"""Which time is decided at: clocks that are set wrong, servers that are, logs that are ahead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.log.runtime.clock import BELIEVE_US, BOUND_US, SLOWER, BoundedClock, LogTime

SECOND = 1_000_000
HOUR = 3600 * SECOND
START = 1_700_000_000 * SECOND


class World:
    """True time, and clocks that are off by so much."""

    def __init__(self) -> None:
        self.passed = self.machine_off = self.server_off = 0
        self.clock = BoundedClock(lambda: START + self.passed + self.machine_off, lambda: self.passed)
        self.hear()

    def hear(self) -> None:
        self.clock.heard(START + self.passed + self.server_off, self.passed)

    def go_on(self, micros: int) -> None:
        """Let time pass; the server is heard every two seconds."""
        end = self.passed + micros
        while self.passed < end:
            self.passed = min(self.passed + 2 * SECOND, end)
            self.hear()

    def off(self) -> int:
        return self.clock() - START - self.passed


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("leap", [2 * HOUR, -2 * HOUR])
def test_machine_that_leaps_is_not_believed(world: World, leap: int) -> None:
    """Neither at once nor later; when it is right again it counts again."""
    world.machine_off = leap
    assert world.off() == 0
    world.go_on(10 * HOUR)
    assert world.off() == 0
    world.machine_off = BOUND_US // 2
    assert world.off() == BOUND_US // 2


@pytest.mark.parametrize("leap", [2 * HOUR, -2 * HOUR])
def test_server_that_leaps_for_a_moment_is_not_believed(world: World, leap: int) -> None:
    """Nor when the machine leaps with it, as it does when both are one machine."""
    world.machine_off = world.server_off = leap
    world.go_on(BELIEVE_US - 4 * SECOND)
    assert world.off() == 0
    world.machine_off = world.server_off = 0
    world.go_on(HOUR)
    assert world.off() == 0


def test_server_that_stays_where_it_leapt_is_believed_in_the_end(world: World) -> None:
    """It was wrong before, and was set right."""
    world.machine_off = world.server_off = 2 * HOUR
    world.go_on(BELIEVE_US + 4 * SECOND)
    assert world.off() == 2 * HOUR


def test_server_that_leaps_again_and_again_is_not_believed(world: World) -> None:
    for minutes in range(60):
        world.server_off = (minutes + 1) * 60 * SECOND
        world.go_on(BELIEVE_US - 4 * SECOND)
    assert world.off() == 0


def test_slow_drift_is_followed(world: World) -> None:
    """A steady clock that runs a little too fast makes nobody wrong."""
    for _ in range(10_000):
        world.go_on(2 * SECOND)
        world.machine_off = world.server_off = world.server_off + 1_000
    assert abs(world.off() - world.server_off) <= 1_000


def test_log_that_is_ahead_goes_on() -> None:
    """Time does not stand still until the clock is there: it takes so many times longer."""
    now = START
    time = LogTime(lambda: now)
    known = time.now(START + 2 * HOUR)
    assert known == START + 2 * HOUR
    now += 60 * SECOND
    known = time.now(known)
    assert known == START + 2 * HOUR + 60 * SECOND // SLOWER
    now += 4 * HOUR
    assert time.now(known) == now


@given(
    st.lists(
        st.tuples(st.integers(-3 * HOUR, 3 * HOUR), st.integers(0, 3 * HOUR), st.booleans()), max_size=30
    )
)
def test_never_before_what_the_log_knows(turns: list[tuple[int, int, bool]]) -> None:
    """Whatever the clock does, and whoever else writes, time does not go back, nor behind the clock."""
    now = known = START
    time = LogTime(lambda: now)
    for by, elsewhere, decides in turns:
        now += by
        if elsewhere % 3 == 0:
            known = max(known, START + elsewhere)
        at = time.now(known)
        assert at >= max(known, now)
        if decides:
            known = at
