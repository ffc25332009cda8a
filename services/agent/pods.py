"""The pods of one attempt as a machine without I/O: which to start, to end, and how the job has ended.

It counts as the controller of batch/v1 Jobs does. What happens goes in, each with its time; what is to be
done comes out, and is done by whoever drives the machine: the agent with processes, a simulator with none.

    | state \\ input | started          | exited      | to end           | time              |
    |---------------|------------------|-------------|------------------|-------------------|
    | STARTING      | RUNNING          | counted     | DOOMED           |                   |
    | RUNNING       |                  | counted     | ENDING, TermPod  |                   |
    | DOOMED        | ENDING, TermPod  | not counted |                  |                   |
    | ENDING        |                  | not counted |                  | KILLED, KillPod   |
    | KILLED        |                  | not counted |                  |                   |

A pod that the system ends (the job got smaller, stops or has failed) counts neither as success nor as
failure, whatever its exit code (WS7): it has not done its work. Its index is run again if it is still needed.
A pod that is ending counts as one that runs until it has ended, so there are never more than were granted.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from sluice.core.timing import MICROS_PER_S
from sluice.events.base import Micros

from .plan import Plan, PodSetPlan
from .policies import Action, describe_exit, matching_failure, matching_success

MAX_EXIT_CODES = 100
"""How many pods' exit codes an end tells of; the failed ones come first."""


class Pod(Enum):
    """Where a pod is, from when it was asked for until it has ended."""

    STARTING = "Starting"
    RUNNING = "Running"
    DOOMED = "Doomed"
    """Being started, and to be ended as soon as it has been."""
    ENDING = "Ending"
    KILLED = "Killed"


TO_END: Mapping[Pod, Pod] = {Pod.STARTING: Pod.DOOMED, Pod.RUNNING: Pod.ENDING}
STARTED: Mapping[Pod, Pod] = {Pod.STARTING: Pod.RUNNING, Pod.DOOMED: Pod.ENDING}
COUNTED = frozenset({Pod.STARTING, Pod.RUNNING})
"""States from which the end of a pod is its own."""


@dataclass(frozen=True, slots=True, order=True)
class PodId:
    pod_set: str
    index: int

    def __str__(self) -> str:
        return f"{self.pod_set}-{self.index}"


@dataclass(frozen=True, slots=True)
class StartPod:
    pod: PodId


@dataclass(frozen=True, slots=True)
class TermPod:
    """Ask the pod to end. `KillPod` follows after its grace period, unless it has ended."""

    pod: PodId


@dataclass(frozen=True, slots=True)
class KillPod:
    pod: PodId


@dataclass(frozen=True, slots=True)
class ReportReady:
    """All pods that are to run do; said again after each resize."""


@dataclass(frozen=True, slots=True)
class ReportReclaimable:
    """So many of the granted pods of each set will not be needed again (SC7).

    *succeeded*: how many completions are done, of sets that may be asked for more pods than are left to do.
    """

    pods: Mapping[str, int]
    succeeded: Mapping[str, int] = field(default_factory=dict)


class End(Enum):
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"


@dataclass(frozen=True, slots=True)
class Ended:
    """No pod is left; nothing more comes. *exit_codes*: of pods that ended by themselves, by name."""

    how: End
    message: str = ""
    exit_codes: Mapping[str, int] = field(default_factory=dict)


Command = StartPod | TermPod | KillPod | ReportReady | ReportReclaimable | Ended


@dataclass(frozen=True, slots=True)
class Timing:
    """*grace*: between TERM and KILL, where the plan has none. *retry_delay* doubles up to *retry_most*."""

    grace: Micros
    retry_delay: Micros
    retry_most: Micros
    most: Micros = sys.maxsize
    """Longest time between TERM and KILL, whatever the plan has."""


@dataclass(slots=True)
class _PodSet:
    plan: PodSetPlan
    pods: dict[int, Pod] = field(default_factory=dict)
    """Those that have not ended, by index."""
    succeeded: set[int] = field(default_factory=set)
    """Kept when the job gets smaller; those beyond the last index do not count meanwhile."""
    failed: set[int] = field(default_factory=set)
    """Indexes that are not tried again."""
    failures: dict[int, int] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)
    """Those that were running at the last resize, or have been since."""
    needed: int = 0
    """How many were to run then."""
    told: int = 0
    """How many were reported as reclaimable since then."""
    told_done: int = 0
    """How many completions were reported as done since then."""

    def in_range(self, index: int) -> bool:
        plan = self.plan
        return not plan.indexed or plan.completions is None or index < plan.completions

    @property
    def done(self) -> frozenset[int]:
        """Indexes that have succeeded, and count."""
        return frozenset(filter(self.in_range, self.succeeded))

    @property
    def given_up(self) -> int:
        return sum(map(self.in_range, self.failed))

    @property
    def remaining(self) -> int:
        """How many pods may still succeed. Only of sets with completions."""
        assert self.plan.completions is not None
        return max(0, self.plan.completions - len(self.done) - self.given_up)

    @property
    def live(self) -> list[int]:
        """Indexes that run, or are about to, and are to go on; lowest first."""
        return sorted(index for index, pod in self.pods.items() if pod in COUNTED)

    def wanted(self) -> int:
        """Return how many pods are to run now."""
        plan = self.plan
        if plan.completions is not None:
            return min(plan.parallelism, self.remaining)
        if self.succeeded:
            # A work queue: one success says that the work is done, and the others run out.
            return min(plan.parallelism, len(self.live))
        return plan.parallelism

    def startable(self) -> Iterator[int]:
        """Return the indexes to be started now, lowest first; pods that are ending still hold theirs."""
        index = 0
        for _ in range(self.wanted() - len(self.pods)):
            while index in self.pods or index in self.succeeded or index in self.failed:
                index += 1
            yield index
            index += 1

    def superfluous(self) -> list[int]:
        """Return the indexes to be ended, highest first: those out of range, then those not granted."""
        live = self.live
        beyond = [index for index in live if not self.in_range(index)]
        excess = max(0, len(live) - len(beyond) - self.wanted())
        kept = [index for index in live if self.in_range(index)]
        return [*reversed(beyond), *reversed(kept[len(kept) - excess :])]

    def mark(self) -> None:
        """Begin anew to wait for all pods to run."""
        self.needed = self.wanted()
        self.begun = {index for index, pod in self.pods.items() if pod is Pod.RUNNING}
        self.told = self.told_done = 0

    @property
    def up(self) -> bool:
        running = sum(pod is Pod.RUNNING for pod in self.pods.values())
        return len(self.begun) >= self.needed or running >= self.wanted()

    @property
    def complete(self) -> bool:
        if self.plan.completions is None:
            return bool(self.succeeded) and not self.live
        return len(self.done) >= self.plan.completions

    @property
    def reclaimable(self) -> int:
        plan = self.plan
        if plan.completions is None or plan.parallelism <= 1:
            return 0
        return max(0, plan.parallelism - self.remaining)

    @property
    def done_with(self) -> int:
        """How many completions are done, or given up, as far as a larger size could ask for their pods."""
        plan = self.plan
        if not plan.resizable or plan.completions is None or plan.parallelism >= plan.completions:
            return 0
        return plan.completions - self.remaining

    @property
    def has_news(self) -> bool:
        return self.reclaimable > self.told or self.done_with > self.told_done


class Pods:
    """The pods of one attempt. Each input returns what is to be done, in order; times never go back."""

    def __init__(self, plan: Plan, timing: Timing) -> None:
        self.plan, self.timing = plan, timing
        self._sets = {pods.name: _PodSet(pods) for pods in plan.pod_sets}
        self._failures = 0
        self._failures_in_a_row = 0
        self._not_before: Micros = 0
        self._end_by: Micros | None = None
        self._kill_at: dict[PodId, Micros] = {}
        self._codes: dict[str, int] = {}
        self._announced = False
        self._end: tuple[End, str] | None = None
        """How the job ends when the last pod has ended; None while it goes on."""
        self._over = False

    # Inputs

    def begin(self, at: Micros) -> list[Command]:
        if self.plan.active_deadline_s is not None:
            self._end_by = at + int(self.plan.active_deadline_s * MICROS_PER_S)
        for pods in self._sets.values():
            pods.mark()
        return self._settle(at)

    def started(self, pod: PodId, at: Micros) -> list[Command]:
        """The pod has a process."""
        pods = self._sets[pod.pod_set]
        now = pods.pods[pod.index] = STARTED[pods.pods[pod.index]]
        if now is Pod.ENDING:
            return [self._term(pod, at), *self._settle(at)]
        pods.begun.add(pod.index)
        return self._settle(at)

    def exited(self, pod: PodId, code: int, at: Micros) -> list[Command]:
        """The pod has ended, by the signal -*code* if that is negative; or it could not be started."""
        pods = self._sets[pod.pod_set]
        was = pods.pods.pop(pod.index)
        self._kill_at.pop(pod, None)
        commands: list[Command] = []
        if was in COUNTED:
            pods.begun.add(pod.index)
            commands += self._count(pods, pod, code, at)
        return [*commands, *self._settle(at)]

    def resize(self, plan: Plan, at: Micros) -> list[Command]:
        """Run as many pods as *plan* has: the same ones go on, the highest indexes end first (WS7)."""
        if self._end is not None:
            return []
        self.plan = plan
        for each in plan.pod_sets:
            self._sets[each.name].plan = each
        commands = [command for pods in self._sets.values() for command in self._drop_superfluous(pods, at)]
        for pods in self._sets.values():
            pods.mark()
        self._announced = False
        return [*commands, *self._settle(at)]

    def stop(self, at: Micros) -> list[Command]:
        """End everything. A job whose completions are done has succeeded all the same."""
        return [*self._finish(End.STOPPED, "", at), *self._settle(at)]

    def hurry(self, within: Micros, at: Micros) -> None:
        """Let no pod that ends, or is ended from now on, have more time than that."""
        self.timing = replace(self.timing, most=min(within, self.timing.most))
        self._kill_at = {pod: min(due, at + within) for pod, due in self._kill_at.items()}

    def tick(self, at: Micros) -> list[Command]:
        """It is *at*: see `deadline`."""
        commands: list[Command] = []
        for pod in sorted(self._kill_at):
            if self._kill_at[pod] <= at:
                del self._kill_at[pod]
                self._sets[pod.pod_set].pods[pod.index] = Pod.KILLED
                commands.append(KillPod(pod))
        if self._end is None and self._end_by is not None and self._end_by <= at:
            commands += self._finish(End.FAILED, "Job was active longer than specified deadline", at)
        return [*commands, *self._settle(at)]

    def deadline(self) -> Micros | None:
        """Return when `tick` is due, if nothing happens before."""
        times = list(self._kill_at.values())
        if self._end is None:
            if self._end_by is not None:
                times.append(self._end_by)
            if any(True for pods in self._sets.values() for _ in pods.startable()):
                # What could be started was not: a failure was too short a time ago.
                times.append(self._not_before)
        return min(times, default=None)

    # What is known

    def state(self, pod: PodId) -> Pod | None:
        """Return where the pod is; None when there is none."""
        return self._sets[pod.pod_set].pods.get(pod.index)

    def running(self) -> dict[PodId, Pod]:
        """Return all pods that have not ended."""
        return {PodId(name, index): pod for name, s in self._sets.items() for index, pod in s.pods.items()}

    def succeeded(self) -> dict[str, int]:
        """Return how many pods of each set have succeeded, of those that count."""
        return {name: len(pods.done) for name, pods in self._sets.items()}

    # What follows

    def _settle(self, at: Micros) -> list[Command]:
        """Start what is wanted, say what there is to say, and end when no pod is left."""
        if self._over:
            return []
        commands: list[Command] = []
        if any(pods.given_up and not pods.remaining for pods in self._sets.values()):
            commands += self._finish(End.FAILED, "Job has failed indexes", at)
        if self._end is None and all(pods.complete for pods in self._sets.values()):
            commands += self._reports(reclaimable=False)
            if not self.running():
                self._end = (End.SUCCEEDED, "")
        elif self._end is None:
            if self._not_before <= at:
                commands += self._start_wanted()
            commands += self._reports(reclaimable=True)
        if self._end is not None and not self.running():
            self._over = True
            how, message = self._end
            commands.append(Ended(how, message, self._exit_codes()))
        return commands

    def _start_wanted(self) -> Iterator[StartPod]:
        for name, pods in self._sets.items():
            for index in list(pods.startable()):
                pods.pods[index] = Pod.STARTING
                yield StartPod(PodId(name, index))

    def _reports(self, *, reclaimable: bool) -> Iterator[Command]:
        if not self._announced and all(pods.up for pods in self._sets.values()):
            self._announced = True
            yield ReportReady()
        if reclaimable and any(pods.has_news for pods in self._sets.values()):
            for pods in self._sets.values():
                pods.told, pods.told_done = pods.reclaimable, pods.done_with
            yield ReportReclaimable(
                {name: pods.told for name, pods in self._sets.items() if pods.told},
                {name: pods.told_done for name, pods in self._sets.items() if pods.told_done},
            )

    def _count(self, pods: _PodSet, pod: PodId, code: int, at: Micros) -> list[Command]:
        """Count a pod that has ended by itself. A failed one is tried again, after a while (backoffLimit)."""
        self._codes[str(pod)] = code
        if code == 0:
            pods.succeeded.add(pod.index)
            self._failures_in_a_row = 0
            rule = matching_success(pods.plan.success_policy, pods.done)
            return [] if rule is None else self._finish(End.SUCCEEDED, f"Matched rules at index {rule}", at)
        self._failures_in_a_row += 1
        delay = self.timing.retry_delay << min(self._failures_in_a_row - 1, 32)
        self._not_before = at + min(delay, self.timing.retry_most)
        action, text = matching_failure(pods.plan.failure_policy, str(pod), code)
        if action is Action.FAIL_JOB:
            return self._finish(End.FAILED, text, at)
        if action is not Action.IGNORE:
            self._failures += 1
            failures = pods.failures[pod.index] = pods.failures.get(pod.index, 0) + 1
            most = pods.plan.backoff_limit_per_index
            if most is not None and (action is Action.FAIL_INDEX or failures > most):
                pods.failed.add(pod.index)
        if self._failures > self.plan.backoff_limit:
            text = f"Job has reached the specified backoff limit (pod {pod}: {describe_exit(code)})"
            return self._finish(End.FAILED, text, at)
        most = pods.plan.max_failed_indexes
        if most is not None and pods.given_up > most:
            text = "Job has exceeded the specified maximal number of failed indexes"
            return self._finish(End.FAILED, text, at)
        return []

    def _finish(self, how: End, message: str, at: Micros) -> list[Command]:
        """Have the job end so: all pods are ended first."""
        if self._end is not None:
            return []
        if how is End.STOPPED and all(pods.complete for pods in self._sets.values()):
            how = End.SUCCEEDED
        self._end = (how, message)
        live = [PodId(name, index) for name, pods in self._sets.items() for index in pods.live]
        return [command for pod in live for command in self._drop(pod, at)]

    def _drop_superfluous(self, pods: _PodSet, at: Micros) -> Iterator[Command]:
        for index in pods.superfluous():
            yield from self._drop(PodId(pods.plan.name, index), at)

    def _drop(self, pod: PodId, at: Micros) -> Iterator[Command]:
        pods = self._sets[pod.pod_set].pods
        pods[pod.index] = TO_END[pods[pod.index]]
        if pods[pod.index] is Pod.ENDING:
            yield self._term(pod, at)

    def _term(self, pod: PodId, at: Micros) -> TermPod:
        grace_s = self._sets[pod.pod_set].plan.grace_s
        grace = self.timing.grace if grace_s is None else int(grace_s * MICROS_PER_S)
        self._kill_at[pod] = at + min(grace, self.timing.most)
        return TermPod(pod)

    def _exit_codes(self) -> dict[str, int]:
        failed_first = sorted(self._codes.items(), key=lambda item: item[1] == 0)
        return dict(failed_first[:MAX_EXIT_CODES])
