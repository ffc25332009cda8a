"""A free run takes its time as the cell did, so that without a change nothing differs from the record."""

import random

import pytest

from sluice.events.base import JobKey, WorkloadKey
from sluice.events.checks import ChecksReady
from sluice.events.codec import encode_commit
from sluice.events.commit import Step
from sluice.log.contract import Entry
from sluice.replay.simulate.inputs import inputs_of
from sluice.replay.simulate.recorded_timing import LAG_US, PACE_US, STALL_US, Tempo
from sluice.replay.simulate.what_if import Cut
from sluice.replay.source.partial_decode import process_of
from sluice.replay.source.source import ListSource
from tests.support.family_world import FamilyWorld, cell, cluster_queue
from tests.support.runs import play, recorded
from tests.unit.replay.lint.test_invariants import CLASSES

RUNS_US = (3_000, 400_000)
PREEMPTION = {"withinClusterQueue": "LowerPriority"}


class Busy:
    """A cell in which everybody takes their time: services lag, executors finish what was just stopped."""

    def __init__(self, world: FamilyWorld, seed: int, jobs: int = 30) -> None:
        self.world, self.random, self.jobs = world, random.Random(seed), jobs
        self.submitted = 0
        self.since: dict[str, tuple[int, int]] = {}
        """Job -> the attempt that runs, and since when."""
        self.stopped: set[tuple[str, int]] = set()
        self.ended: set[str] = set()

    def play(self) -> list[Entry]:
        while len(self.ended) < self.jobs:
            self.world.now += self.random.randrange(50, 4_000)
            kind = self.random.random()
            if kind < 0.1 and self.submitted < self.jobs:
                cls = self.random.choice(("low", "low", "high"))
                self.world.submit(self.name(self.submitted), self.random.randint(1, 3), priority_class=cls)
                self.submitted += 1
            elif kind < 0.8:
                writer = self.random.choice(list(self.world.services))
                self.world.step(writer, self.random.choice((1, 2, 7, None)))
            elif self.submitted:
                self.execute(self.name(self.random.randrange(self.submitted)))
        return self.world.log

    @staticmethod
    def name(number: int) -> str:
        return f"job-{number}"

    def execute(self, name: str) -> None:
        """One executor looks at what its job is to do, and how far it has come."""
        if name in self.ended:
            return
        attempt, since = self.since.get(name, (0, 0))
        runs_us = RUNS_US[int(name[4:]) % 2]
        entry = self.world.dispatch(name)
        if attempt and (name, attempt) not in self.stopped and self.world.now - since >= runs_us:
            self.world.message(f"job.default.{name}", "JobFinished", {"attempt": attempt})
            self.ended.add(name)
        elif entry is not None and entry.stop and (name, entry.attempt) not in self.stopped:
            self.world.message(f"job.default.{name}", "JobStopped", {"attempt": entry.attempt})
            self.stopped.add((name, entry.attempt))
        elif entry is not None and entry.state == "Running" and entry.attempt > attempt:
            self.since[name] = (entry.attempt, self.world.now)


@pytest.mark.parametrize("seed", [*range(4), 59, 279])
@pytest.mark.parametrize("policy", [{}, None], ids=["plain", "variants"])
def test_a_busy_cell_comes_out_as_it_was(seed, policy):
    """Whatever each service had heard when it decided: the same decisions, in the same order."""
    flavors = {"res": 6} if policy == {} else {"res": 3, "od": 3}
    world = cell(cluster_queue(flavors, policy, preemption=PREEMPTION), *CLASSES)
    source = ListSource(Busy(world, seed).play())
    free, _ = play(inputs_of(source))
    record = recorded(source)

    assert record.numbers["finished"] > 20
    assert sum(record.numbers["preemptions"].values()) > 0
    assert free.decisions[: len(record.decisions)] == record.decisions


@pytest.mark.parametrize("seed", range(3))
def test_so_it_does_from_any_point_on(seed):
    """What had been heard of but not answered where the log is left is answered as it was."""
    world = cell(cluster_queue({"res": 6}, {}, preemption=PREEMPTION), *CLASSES)
    source = ListSource(Busy(world, seed).play())
    inputs, record = inputs_of(source), recorded(source)
    cuts = random.Random(seed).sample(range(20, len(source.entries) - 20), 8)
    for cut in cuts:
        free, cell_ = play(inputs, source=source, cut=Cut(cut))
        assert free.decisions[: len(record.decisions)] == record.decisions, cut
        assert all(check.divergence is None for check in cell_.followed())


def test_who_had_ended_before_knowing_better_says_no_more():
    """A job that finished while it was being stopped is not stopped as well."""
    world = cell(cluster_queue({"res": 1}, {}, preemption=PREEMPTION), *CLASSES)
    world.submit("quick", priority_class="low").settle()
    world.submit("urgent", priority_class="high")
    for writer in ("slices", "scheduler"):
        world.now += 1_000
        world.step(writer)
    world.now += 1_000
    world.report("quick", "JobFinished").settle()
    world.settle(1)
    world.report("urgent", "JobFinished").settle()
    source = ListSource(world.log)
    inputs = inputs_of(source)
    free, _ = play(inputs)
    (run,) = inputs.runs[JobKey("default/quick")]

    assert run.answers(JobKey("default/quick"), 1, over=True) == []
    assert free.decisions == recorded(source).decisions
    assert free.numbers["finished"] == 2


def tempo(*steps: tuple[int, int, int]) -> Tempo:
    """*steps*: at, and the time and sequence of the last message heard of."""
    found = Tempo()
    for at, heard, upto in steps:
        found.note(at, upto, (at, upto + 1))
        found.limits.append((heard, upto))
    return found


def test_an_answer_is_the_first_step_that_had_heard():
    """Of a message as it was; what came otherwise is answered at once when nothing was decided soon after."""
    steps = tempo((1_000, 500, 5), (100_000, 90_000, 9), (100_200, 90_000, 9), (9_000_000, 8_990_000, 20))

    assert steps.answer((400, 4)) == 0
    assert steps.answer((600, 6)) == 1
    assert steps.answer((100_000 - PACE_US, 0)) == 1
    assert steps.answer((100_000 - PACE_US - 1, 0)) == -1
    assert steps.answer((9_000_000 - LAG_US - 1, 10)) == -1
    assert steps.answer((9_000_000, 21)) == -1
    assert steps.soon(99_000) == 1
    assert steps.soon(200_000) == -1
    assert [steps.goes_on(n) for n in range(4)] == [False, True, False, False]


def test_who_took_over_answers_what_had_come_meanwhile():
    """Nobody was there to hear it, as the log's message ids tell. Only recorded messages, for a while."""
    steps = tempo((1_000, 500, 5), (4_000_000, 3_900_000, 9), (9_000_000, 3_950_000, 10))
    assert steps.answer((600, 6)) == -1

    other = Tempo()
    for step in ((1_000, 500, 5), (4_000_000, 3_900_000, 9), (30_000_000, 29_900_000, 10)):
        other.written_by(b"one" if step[2] == 5 else b"two")
        other.note(step[0], step[2], (step[0], step[2] + 1))
        other.limits.append(step[1:])
    assert other.begins == {0, 1}
    assert other.answer((600, 6)) == 1
    assert other.answer((600, 0)) == -1
    assert other.answer((4_000_000, 10)) == -1


def test_a_commit_tells_who_wrote_it():
    steps = [Step(upto=1, at=2, events=(ChecksReady(cause=1, workload=WorkloadKey("default/a")),))]
    commit = encode_commit("main", "scheduler", "scheduler-7-vm-31-0c84", steps)
    assert process_of(commit) == b"vm-31-0c84"


def test_what_nobody_answered_is_not_heard_before_what_came_first():
    """Who decided without having heard of a message hears of it after that, also if it never answered it."""
    steps = tempo((1_000, 500, 5), (100_000, 90_000, 9))

    assert steps.deaf_until((400, 4)) == 0
    assert steps.deaf_until((600, 6)) == 1_000
    assert steps.deaf_until((95_000, 10)) == 100_000


def test_a_cell_that_stood_still_answers_what_it_had_heard_last():
    """For a while; what it says much later is no answer."""
    assert tempo((STALL_US, 900, 9)).answer((0, 8)) == 0
    assert tempo((STALL_US, PACE_US + 1, 9)).answer((0, 8)) == -1
    assert tempo((STALL_US + 1, 900, 9)).answer((0, 8)) == -1
