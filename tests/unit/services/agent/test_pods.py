"""The pods of one attempt: which count, which are run again, and how the job ends (WS7, batch/v1)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from sluice.core.timing import MICROS_PER_S as MICROS
from sluice.events.base import Micros
from sluice.services.agent.plan import Plan, PodSetPlan
from sluice.services.agent.pods import (
    COUNTED,
    STARTED,
    TO_END,
    Command,
    End,
    Ended,
    KillPod,
    Pod,
    PodId,
    Pods,
    ReportReady,
    ReportReclaimable,
    StartPod,
    TermPod,
    Timing,
)
from sluice.services.agent.policies import FailureRule, SuccessRule, failure_rules, success_rules

GRACE, DELAY = 10 * MICROS, 1 * MICROS


@dataclass
class Run:
    """A driven machine, and a model beside it: only pods that ended by themselves count."""

    pods: Pods
    at: Micros = 0
    commands: list[Command] = field(default_factory=list)
    by_themselves: dict[PodId, int] = field(default_factory=dict)
    failures: int = 0

    def take(self, commands: Sequence[Command]) -> "Run":
        for command in commands:
            assert not self.ended, f"{command} after the end"
            self.commands.append(command)
        return self

    @property
    def ended(self) -> Ended | None:
        last = self.commands[-1] if self.commands else None
        return last if isinstance(last, Ended) else None

    def said(self, kind: type) -> list[str]:
        """Return the pods of all commands of a kind, and forget them."""
        found = [str(command.pod) for command in self.commands if isinstance(command, kind)]
        self.commands = [command for command in self.commands if not isinstance(command, kind)]
        return found

    def count(self, kind: type) -> int:
        return sum(isinstance(command, kind) for command in self.commands)

    def start_all(self) -> "Run":
        for pod, state in self.pods.running().items():
            if state in STARTED:
                self.take(self.pods.started(pod, self.at))
        return self

    def exit(self, index: int, code: int = 0, pod_set: str = "main") -> "Run":
        pod = PodId(pod_set, index)
        if self.pods.state(pod) in COUNTED:
            self.failures += code != 0
            if code == 0:
                self.by_themselves[pod] = self.by_themselves.get(pod, 0) + 1
        return self.take(self.pods.exited(pod, code, self.at))

    def resize(self, plan: Plan) -> "Run":
        return self.take(self.pods.resize(plan, self.at))

    def wait(self, seconds: float) -> "Run":
        self.at += int(seconds * MICROS)
        return self.take(self.pods.tick(self.at))

    def stop(self) -> "Run":
        return self.take(self.pods.stop(self.at))


def plan(parallelism: int = 3, completions: int | None = 3, *, limit: int = 6, **fields: object) -> Plan:
    pods = PodSetPlan("main", parallelism, completions, bool(fields.pop("indexed", True)), ["true"], [])
    return Plan([replace(pods, **fields)], limit)  # type: ignore[arg-type]


def begun(of: Plan) -> Run:
    run = Run(Pods(of, Timing(GRACE, DELAY, 60 * MICROS)))
    return run.take(run.pods.begin(0)).start_all()


# The table


@pytest.mark.parametrize("code", [0, 1, -15])
@pytest.mark.parametrize("state", list(Pod), ids=lambda pod: pod.value)
def test_table_of_transitions(state: Pod, code: int) -> None:
    """What the end of a pod means depends on whether the system had begun to end it, not on its exit code."""
    small = plan(1, 3)
    run = Run(Pods(plan(2, 3), Timing(GRACE, DELAY, 60 * MICROS)))
    run.take(run.pods.begin(0))
    pod = PodId("main", 1)
    if state in (Pod.RUNNING, Pod.ENDING, Pod.KILLED):
        run.start_all()
    if state in (Pod.DOOMED, Pod.ENDING, Pod.KILLED):
        run.resize(small)
    if state is Pod.KILLED:
        run.wait(10)
    assert run.pods.state(pod) is state
    assert run.said(TermPod) == (["main-1"] if state in (Pod.ENDING, Pod.KILLED) else [])
    assert run.said(KillPod) == (["main-1"] if state is Pod.KILLED else [])
    if state is Pod.DOOMED:
        # It cannot be told to end before it has been started.
        run.take(run.pods.started(pod, 0))
        assert run.pods.state(pod) is Pod.ENDING
        assert run.said(TermPod) == ["main-1"]
    run.exit(1, code)
    assert run.pods.state(pod) is None
    counts = state in (Pod.STARTING, Pod.RUNNING)
    assert run.pods.succeeded() == {"main": 1 if counts and code == 0 else 0}
    run.stop()
    for left in list(run.pods.running()):
        run.exit(left.index)
    assert run.ended == Ended(End.STOPPED, exit_codes={"main-1": code} if counts else {})


def test_only_live_pods_are_ended() -> None:
    """The tables of the module: who is ending already is not told again."""
    assert set(TO_END) == COUNTED == {Pod.STARTING, Pod.RUNNING}


# The system's ends count neither way


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("code", [0, 3, -15])
def test_a_scaled_down_pod_is_neither_success_nor_failure(code: int, indexed: bool) -> None:
    """A job of three, made smaller: the worker that was ended does its work again, whatever it exits with."""
    run = begun(plan(3, 3, indexed=indexed, limit=0)).resize(plan(2, 3, indexed=indexed, limit=0))
    assert run.said(TermPod) == ["main-2"]
    run.exit(2, code).exit(0)
    assert run.said(StartPod)[-1] == "main-2"
    assert run.start_all().exit(1).ended is None
    assert run.exit(2).ended == Ended(End.SUCCEEDED, exit_codes={"main-0": 0, "main-1": 0, "main-2": 0})


def test_growth_after_a_shrink_starts_its_pods() -> None:
    """A work queue too: that a pod could be ended in peace does not say that the work is done."""
    run = begun(plan(3, None, indexed=False)).resize(plan(1, None, indexed=False)).exit(2).exit(1)
    run.said(StartPod)
    run.resize(plan(3, None, indexed=False))
    assert run.said(StartPod) == ["main-1", "main-2"]
    run.start_all().exit(0)
    assert run.resize(plan(5, None, indexed=False)).said(StartPod) == []
    assert run.exit(1).exit(2, 1).ended == Ended(
        End.SUCCEEDED, exit_codes={"main-2": 1, "main-0": 0, "main-1": 0}
    )


def test_ending_pods_hold_their_place_until_they_have_ended() -> None:
    """Scaled down and up again at once: nothing is started beside a pod that takes its time to end."""
    run = begun(plan(3, 3)).resize(plan(2, 3))
    run.said(StartPod)
    assert run.resize(plan(3, 3)).said(StartPod) == []
    assert run.exit(2).said(StartPod) == ["main-2"]


def test_indexes_beyond_the_size_neither_count_nor_run() -> None:
    """Jobs of our own kind have as many completions as pods: those beyond the last index count no more."""
    run = begun(plan(5, 5)).exit(0).exit(4).resize(plan(3, 3))
    assert run.said(TermPod) == ["main-3"]
    run.exit(1).exit(2)
    assert run.ended is None
    assert run.exit(3).ended is not None
    again = begun(plan(5, 5)).exit(4).resize(plan(3, 3)).exit(3).resize(plan(5, 5))
    assert again.said(StartPod)[-1] == "main-3"
    for index in (0, 1, 2):
        again.exit(index)
    assert again.start_all().exit(3).ended is not None


def test_eviction_in_the_middle_ends_all_and_succeeds_never() -> None:
    """Stopped with completions to do: TERM, KILL after the grace period, and no success however they exit."""
    run = begun(plan(3, 3)).exit(0).stop()
    assert run.said(TermPod) == ["main-1", "main-2"]
    assert run.pods.deadline() == GRACE
    run.exit(1).wait(10)
    assert run.said(KillPod) == ["main-2"]
    assert run.exit(2).ended == Ended(End.STOPPED, exit_codes={"main-0": 0})


def test_a_stop_does_not_undo_a_success() -> None:
    """All completions are done, only a pod of an earlier shrink still ends: the job has succeeded."""
    run = begun(plan(3, 2)).exit(0)
    run = begun(plan(3, 3, indexed=False)).resize(plan(2, 3, indexed=False)).exit(0).exit(1)
    assert run.ended is None
    run = begun(plan(2, 2)).resize(plan(1, 1)).exit(0).stop()
    assert run.ended is None
    assert run.exit(1).ended == Ended(End.SUCCEEDED, exit_codes={"main-0": 0})


# Readiness and reclaimable pods


def test_ready_once_and_again_after_each_resize() -> None:
    """All pods that are to run do; ending ones and those of an earlier size do not count."""
    run = Run(Pods(plan(2, 3), Timing(GRACE, DELAY, 60 * MICROS)))
    run.take(run.pods.begin(0)).take(run.pods.started(PodId("main", 0), 0))
    assert run.count(ReportReady) == 0
    run.start_all()
    assert run.count(ReportReady) == 1
    run.exit(0, 1).wait(1)
    run.start_all()
    assert run.count(ReportReady) == 1
    run.resize(plan(1, 3))
    assert run.count(ReportReady) == 2
    run.resize(plan(2, 3))
    assert run.count(ReportReady) == 2, "the pod that is ending is none that runs"
    run.exit(1).start_all()
    assert run.count(ReportReady) == 3


def test_ready_when_nothing_more_is_to_start() -> None:
    """A work queue that has succeeded starts no pods for its growth, and must not be waited for."""
    run = begun(plan(2, None)).exit(0).resize(plan(5, None))
    assert run.count(ReportReady) == 2


def test_reclaimable_pods() -> None:
    """What is granted beyond those still to succeed; said when there are more, and after a resize."""
    run = begun(plan(3, 4)).exit(0).start_all()
    assert run.count(ReportReclaimable) == 0
    run.exit(1).exit(2)
    reports = [c.pods for c in run.commands if isinstance(c, ReportReclaimable)]
    assert reports == [{"main": 1}, {"main": 2}]
    assert begun(plan(3, 3)).exit(0).resize(plan(4, 4)).count(ReportReclaimable) == 2


def told(run: Run) -> list[tuple[dict[str, int], dict[str, int]]]:
    return [(dict(c.pods), dict(c.succeeded)) for c in run.commands if isinstance(c, ReportReclaimable)]


def test_completions_that_are_done() -> None:
    """Of a job that may grow: said with each, and after a resize; not while it could not grow (WS3)."""
    small, large = plan(1, 3, resizable=True), plan(3, 3, resizable=True)
    run = begun(small).exit(0).start_all().exit(1).start_all()
    assert told(run) == [({}, {"main": 1}), ({}, {"main": 2})]
    assert told(run.resize(large)) == [({}, {"main": 1}), ({}, {"main": 2}), ({"main": 2}, {})]
    assert told(run.resize(small))[3:] == [({}, {"main": 2})]
    assert told(begun(plan(1, 3)).exit(0).start_all().exit(1)) == []
    assert told(begun(plan(1, None, resizable=True)).exit(0)) == []


def test_failed_indexes_are_done_with() -> None:
    """Their pods are never run again either."""
    run = begun(plan(2, 4, resizable=True, backoff_limit_per_index=0)).exit(0, 1)
    assert told(run) == [({}, {"main": 1})]


# As batch/v1


def test_backoff_limit_counts_own_failures_only() -> None:
    """Retries wait, twice as long each time, anew after a success; one failure too many fails the job."""
    run = begun(plan(2, 4, limit=2)).exit(0, 1)
    assert run.pods.deadline() == DELAY
    run.said(StartPod)
    assert run.wait(0.5).said(StartPod) == []
    assert run.wait(0.5).said(StartPod) == ["main-0"]
    run.start_all().exit(0, 1)
    assert run.pods.deadline() == run.at + 2 * DELAY
    run.exit(1).wait(2).start_all().exit(0, 9)
    assert run.said(TermPod) == ["main-2"]
    ended = run.exit(2).ended
    assert ended is not None
    assert (ended.how, ended.message) == (
        End.FAILED,
        "Job has reached the specified backoff limit (pod main-0: exit code 9)",
    )
    assert ended.exit_codes == {"main-0": 9, "main-1": 0}


def test_deadline() -> None:
    run = begun(replace(plan(1, 1), active_deadline_s=5.0))
    assert run.pods.deadline() == 5 * MICROS
    assert run.wait(5).said(TermPod) == ["main-0"]
    ended = run.exit(0).ended
    assert ended is not None
    assert (ended.how, ended.message) == (End.FAILED, "Job was active longer than specified deadline")


def test_failure_policy() -> None:
    """The first rule that matches the exit code decides; signals are 128 and more, as in containers."""
    rules = failure_rules(
        {
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
                {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [137]}},
            ]
        }
    )
    assert isinstance(rules[1], FailureRule)
    run = begun(plan(1, 1, limit=0, failure_policy=rules)).exit(0, -9).wait(1).start_all()
    ended = run.exit(0, 42).ended
    assert ended is not None
    assert ended.message == "Pod main-0 failed with exit code 42 matching FailJob rule at index 1"


def test_success_policy() -> None:
    """The indexes named are enough; what else runs is ended."""
    rules = success_rules({"rules": [{"succeededIndexes": "0,2-3", "succeededCount": 2}]})
    assert rules == (SuccessRule(((0, 0), (2, 3)), 2),)
    run = begun(plan(4, 4, success_policy=rules)).exit(1).exit(2)
    assert run.ended is None
    run.exit(0)
    assert run.said(TermPod) == ["main-3"]
    ended = run.exit(3, 1).ended
    assert ended is not None
    assert (ended.how, ended.message) == (End.SUCCEEDED, "Matched rules at index 0")


def test_limits_per_index() -> None:
    """An index that has failed too often is given up; the others go on, then the job has failed."""
    run = begun(plan(2, 3, limit=99, backoff_limit_per_index=0)).exit(0, 1).wait(1)
    assert run.said(StartPod)[-1] == "main-2"
    ended = run.start_all().exit(1).exit(2).ended
    assert ended is not None
    assert (ended.how, ended.message) == (End.FAILED, "Job has failed indexes")
    run = begun(plan(2, 3, limit=99, backoff_limit_per_index=0, max_failed_indexes=0)).exit(0, 1)
    ended = run.exit(1).ended
    assert ended is not None
    assert ended.message == "Job has exceeded the specified maximal number of failed indexes"


# Everything that can happen to small jobs


@dataclass(frozen=True)
class Case:
    completions: int | None
    indexed: bool
    sizes: Sequence[int]
    follows: bool = False
    """Completions are as many as pods, as those of our own kind are."""

    def plan(self, size: int) -> Plan:
        return plan(size, size if self.follows else self.completions, indexed=self.indexed, limit=1)


def inputs(run: Run, case: Case, size: int) -> Iterator[tuple[object, ...]]:
    for pod, state in run.pods.running().items():
        if state in STARTED:
            yield ("started", pod)
        if state is not Pod.DOOMED:
            yield ("exit", pod, 0)
            yield ("exit", pod, 1)
    yield from (("resize", other) for other in case.sizes if other != size)
    if run.pods.deadline() is not None:
        yield ("time",)
    yield ("stop",)


def play(case: Case, history: Sequence[tuple[object, ...]]) -> tuple[Run, int]:
    run = Run(Pods(case.plan(case.sizes[0]), Timing(GRACE, DELAY, 60 * MICROS)))
    run.take(run.pods.begin(0))
    for step in history:
        match step:
            case ("started", PodId() as pod):
                run.take(run.pods.started(pod, run.at))
            case ("exit", PodId() as pod, int(code)):
                run.exit(pod.index, code)
            case ("resize", int(size)):
                run.resize(case.plan(size))
            case ("time",):
                deadline = run.pods.deadline()
                assert deadline is not None
                run.at = max(run.at, deadline)
                run.take(run.pods.tick(run.at))
            case ("stop",):
                run.stop()
    # Once it is ending, other sizes mean nothing.
    return run, run.pods.plan.pod_sets[0].parallelism


def validate(run: Run, case: Case, size: int) -> None:
    """What must hold after every step, by the model."""
    live = [pod for pod, state in run.pods.running().items() if state in COUNTED]
    assert len(live) <= size, "more pods than granted"
    ended = run.ended
    if ended is None:
        return
    assert not run.pods.running()
    if ended.how is End.SUCCEEDED:
        completions = size if case.follows else case.completions
        if completions is None:
            assert run.by_themselves, "a work queue without a success"
        elif case.indexed:
            assert {pod.index for pod in run.by_themselves} >= set(range(completions))
        else:
            assert sum(run.by_themselves.values()) >= completions
    if ended.how is End.FAILED:
        assert run.failures > 1, "failed below its backoff limit"
    assert not run.pods.deadline()


def key(run: Run, size: int) -> str:
    """What distinguishes machines for what may follow; times matter by what is due only."""
    pods = run.pods
    sets = pods._sets["main"]
    return repr(
        (
            size,
            sorted(sets.pods.items(), key=str),
            sorted(sets.succeeded),
            sorted(run.by_themselves.items()),
            sorted(sets.begun),
            sets.needed,
            run.failures,
            pods._failures,
            pods._end,
            pods._announced,
            pods._not_before > run.at,
            sorted((pod, at > run.at) for pod, at in pods._kill_at.items()),
        )
    )


@pytest.mark.parametrize(
    "case",
    [
        Case(2, True, (2, 1)),
        Case(2, False, (2, 1)),
        Case(3, True, (2, 1)),
        Case(None, False, (2, 1)),
        Case(None, True, (2, 1), follows=True),
        Case(2, True, (1, 0, 2)),
    ],
    ids=str,
)
def test_every_history_of_a_small_job(case: Case) -> None:
    """In whatever order: never more pods than granted, and a success is the work of pods left in peace."""
    seen: set[str] = set()
    histories: list[tuple[tuple[object, ...], ...]] = [()]
    ends: set[End] = set()
    while histories:
        history = histories.pop()
        run, size = play(case, history)
        validate(run, case, size)
        if run.ended is not None:
            ends.add(run.ended.how)
            continue
        found = key(run, size)
        if found in seen or len(history) > 9:
            continue
        seen.add(found)
        histories += [(*history, step) for step in inputs(run, case, size)]
    assert ends == set(End)
