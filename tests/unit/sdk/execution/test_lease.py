"""The lease: what an executor cannot report has ended before anybody else is given it."""

from dataclasses import dataclass, field
from random import Random

import pytest

from sluice.events.base import JobKey
from sluice.events.job import JobFinished, JobPodsReady, JobStopped, OnLoss
from sluice.sdk.execution import ExecutorSettings, Outcome
from sluice.sdk.execution import actions as act
from tests.support.execution_world import Process, World

JOB = JobKey("default/a")
AFTER_S, STOP_S, STEP_S = 8.0, 3.0, 0.1
LEASED = ExecutorSettings(lease=True, requeue_after_s=AFTER_S, stop_s=STOP_S)


class Leases(World):
    """Notes what is said of leases."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hurried: list[float] = []
        self.until: list[float] = []

    def do(self, process: Process, actions) -> None:
        actions = list(actions)
        self.hurried += [action.within_s for action in actions if isinstance(action, act.HurryWork)]
        self.until += [action.until for action in actions if isinstance(action, act.Leased)]
        super().do(process, actions)


@dataclass
class Cell:
    """Executors that can be cut off, and who says that they are lost: no sooner than they have asked for."""

    random: Random
    settings: ExecutorSettings = LEASED
    world: Leases = field(init=False)
    cut: set[str] = field(default_factory=set)
    missing: dict[str, float] = field(default_factory=dict)
    ends: dict[tuple[str, int], float] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = Leases(self.random)
        for name in ("x", "y"):
            self.world.start(name, self.settings)
        self.world.settle(1)

    def play(self, seconds: float) -> None:
        end = self.world.now + seconds
        while self.world.now < end:
            self.world.now = round(self.world.now + STEP_S, 6)
            for name, process in list(self.world.processes.items()):
                self.world.do(process, process.machine.tick(self.world.now))
                self._answer(name, process)
                self._end(name, process)
            self._look()

    def _answer(self, name: str, process: Process) -> None:
        while process.asked:
            away = name in self.cut
            self.world.answer(process, process.asked[0], lost=away, done=not away)
        if name not in self.cut:
            self.world.decide()

    def _end(self, name: str, process: Process) -> None:
        """What is cancelled takes as long as it may."""
        for number, work in list(process.works.items()):
            if not work.cancelled:
                continue
            due = self.ends.setdefault(
                (name, number), self.world.now + self.random.uniform(0, STOP_S - STEP_S)
            )
            if self.world.now >= due:
                self.world.end_work(process, number, None)

    def _look(self) -> None:
        for name in self.world.processes:
            if self.world.beats.get(name) is not None:
                self.missing.pop(name, None)
            elif self.world.now >= self.missing.setdefault(name, self.world.now) + AFTER_S:
                del self.missing[name]
                self.lost.append(name)
                self.world.lose_executor(name)

    def running(self) -> str:
        (name,) = self.world.running("a")
        return name

    def told(self, kind: type) -> list:
        return [told.data for told in self.world.log[JOB] if isinstance(told.data, kind)]


@pytest.mark.parametrize("seed", range(6))
def test_nothing_runs_twice_however_long_somebody_is_cut_off(seed: int) -> None:
    """And what was ended is begun again: by another one, or the same when it is back."""
    cell = Cell(Random(seed))
    cell.world.submit("a")
    cell.play(1)
    for _ in range(6):
        cell.cut = {cell.random.choice(("x", "y"))}
        cell.play(cell.random.uniform(1, 25))
        cell.cut = set()
        cell.play(cell.random.uniform(2, 10))
    cell.play(15)
    assert cell.world.double == []
    assert cell.running()
    assert set(cell.world.dispatch) == {JOB}


def test_without_a_lease_it_runs_twice() -> None:
    """The test above can fail."""
    cell = Cell(Random(1), ExecutorSettings(requeue_after_s=AFTER_S))
    cell.world.submit("a")
    cell.play(1)
    cell.cut = {cell.running()}
    cell.play(20)
    assert cell.world.double


def test_a_server_that_is_away_ends_what_cannot_be_reported() -> None:
    """In time; it is reported as stopped when the server is back, with the reason, and begun again."""
    cell = Cell(Random(1))
    cell.world.submit("a")
    cell.play(1)
    name = cell.running()
    cell.cut = {"x", "y"}
    cell.play(AFTER_S - STOP_S - 1.2)
    assert cell.running() == name
    cell.play(1.3)
    assert cell.world.running("a") == []
    (within,) = cell.world.hurried
    assert STOP_S - STEP_S <= within <= STOP_S
    cell.play(STOP_S)
    cell.cut = set()
    cell.play(3)
    (stopped,) = cell.told(JobStopped)
    assert (stopped.executor, stopped.message) == (name, f'Executor "{name}" could not report for 5 s')
    assert cell.running()
    assert cell.world.double == cell.lost == []


def test_nothing_is_begun_while_the_lease_is_over() -> None:
    """Though everything but its heartbeat is answered."""
    cell = Cell(Random(1))
    process = cell.world.processes["x"]
    del cell.world.processes["y"]
    for _ in range(100):
        cell.world.now += STEP_S
        cell.world.do(process, process.machine.tick(cell.world.now))
        process.asked = [ask for ask in process.asked if not isinstance(ask.request, act.PutHeartbeat)]
    cell.world.submit("a")
    for _ in range(100):
        cell.world.now += STEP_S
        cell.world.do(process, process.machine.tick(cell.world.now))
        for ask in list(process.asked):
            cell.world.answer(process, ask)
    assert cell.world.started == []


def test_a_failure_after_the_lease_is_none_of_the_jobs() -> None:
    """Whoever ended it (the agent's guardian): it has stopped, and is begun again."""
    cell = Cell(Random(1))
    cell.world.submit("a")
    cell.play(1)
    process = cell.world.processes[cell.running()]
    (number,) = process.works
    cell.world.now += 60
    cell.world.end_work(process, number, Outcome(success=False, exit_codes={"main-0": 137}))
    cell.play(3)
    assert cell.told(JobFinished) == []
    assert len(cell.told(JobStopped)) == 1


def test_each_beat_that_is_taken_renews_the_lease_from_when_it_was_sent() -> None:
    cell = Cell(Random(1))
    assert cell.world.until[:2] == [AFTER_S, AFTER_S]
    cell.play(5)
    assert cell.world.until == sorted(cell.world.until)
    assert max(cell.world.until) <= cell.world.now + AFTER_S


@pytest.mark.parametrize(
    ("settings", "wish"),
    [
        (ExecutorSettings(), None),
        (ExecutorSettings(on_loss="Wait"), OnLoss(policy="Wait")),
        (ExecutorSettings(requeue_after_s=60), OnLoss(after_s=60)),
        (ExecutorSettings(lease=True), OnLoss(after_s=8)),
    ],
)
def test_the_log_hears_with_each_claim_what_is_to_become_of_it(
    settings: ExecutorSettings, wish: OnLoss | None
) -> None:
    """By default nothing: what was said before this could be said is what is said still."""
    cell = Cell(Random(1), settings)
    cell.world.submit("a")
    cell.play(1)
    (claimed,) = cell.told(JobPodsReady)
    assert claimed.on_loss == wish


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"on_loss": "Wait", "lease": True}, "Wait"),
        ({"on_loss": "Wait", "requeue_after_s": 9.0}, "Wait"),
        ({"lease": True, "requeue_after_s": 4.0}, "requeue_after_s 4"),
    ],
)
def test_settings_that_promise_nothing_are_refused(settings: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ExecutorSettings(**settings)
