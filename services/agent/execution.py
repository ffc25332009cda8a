"""One attempt of one job on this machine: pods are started, retried and counted as batch/v1 does it."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import structlog

from sluice.events.dispatch import DispatchEntry, DispatchPodSet, key_token
from sluice.sdk import Outcome

from .files import RESULT, prepare
from .orphans import end_processes, strays
from .plan import Plan, PodSetPlan, pod_env, resolve
from .process import PidFile, PodProcess, start

RETRY_MOST_S = 60.0
MAX_EXIT_CODES = 100
"""How many pods' exit codes a report holds; the failed ones come first."""

_PRIVATE = ("AGENT_", "SLUICE_", "NATS_")
"""Variables of the agent's own environment that pods do not inherit."""

log = structlog.get_logger("sluice.agent")


@dataclass(frozen=True, slots=True)
class Machine:
    """What all attempts on this machine share. Times are seconds."""

    agent: str
    cell: str
    work_dir: Path
    grace_s: float
    retry_delay_s: float
    base_env: Mapping[str, str]

    def directory(self, job: str, attempt: int) -> Path:
        """Return `<namespace>/<job>/<attempt>` under the work directory."""
        namespace, _, name = job.partition("/")
        return self.work_dir / key_token(namespace) / key_token(name) / str(attempt)


def inherited(env: Mapping[str, str]) -> dict[str, str]:
    """Return what pods get of the agent's environment."""
    return {name: value for name, value in env.items() if not name.startswith(_PRIVATE)}


class JobFailedError(Exception):
    """The job has failed; the text says why."""


@dataclass(slots=True)
class _PodSet:
    plan: PodSetPlan
    granted: DispatchPodSet
    succeeded: int = 0
    spawned: int = 0
    next_index: int = 0
    again: list[int] = field(default_factory=list)
    """Indexes to be tried again, lowest first."""
    active: int = 0
    dropped: set[int] = field(default_factory=set)
    """Indexes that run, but are to end as the job got smaller."""

    @property
    def first(self) -> int:
        """How many pods run at the beginning."""
        plan = self.plan
        return plan.parallelism if plan.completions is None else min(plan.parallelism, plan.completions)

    def wants(self) -> int:
        """Return how many more pods should run now; those that are ending count until they have."""
        plan = self.plan
        if plan.completions is None:
            most = plan.parallelism if not self.succeeded else 0
        else:
            most = min(plan.parallelism, plan.completions - self.succeeded)
        return most - self.active

    def excess(self) -> int:
        """Return how many pods more than granted run, and are not ending yet."""
        return self.active - len(self.dropped) - self.plan.parallelism

    def take_index(self) -> int:
        if self.again:
            return self.again.pop(0)
        self.next_index += 1
        return self.next_index - 1

    @property
    def complete(self) -> bool:
        if self.plan.completions is None:
            return self.succeeded > 0 and not self.active
        return self.succeeded >= self.plan.completions

    @property
    def reclaimable(self) -> int:
        """How many of the granted pods will not be needed again."""
        plan = self.plan
        if plan.completions is None or plan.parallelism <= 1:
            return 0
        return max(0, plan.parallelism - (plan.completions - self.succeeded))


class Execution:
    """Runs a plan to its end, or until cancelled: then everything has ended when the cancellation shows."""

    def __init__(
        self,
        machine: Machine,
        entry: DispatchEntry,
        plan: Plan,
        *,
        ready: Callable[[], Awaitable[None]],
        reclaimable: Callable[[dict[str, int]], Awaitable[None]],
    ) -> None:
        self.machine, self.entry, self.plan = machine, entry, plan
        self._ready, self._reclaimable = ready, reclaimable
        self.directory = machine.directory(entry.job, entry.attempt)
        granted = {pods.name: pods for pods in entry.pod_sets}
        self._pod_sets = [_PodSet(pods, granted[pods.name]) for pods in plan.pod_sets]
        self._failures = 0
        self._codes: dict[str, int] = {}
        self._processes: dict[str, tuple[PodProcess, float]] = {}
        self._tasks: dict[asyncio.Task[int], tuple[_PodSet, int]] = {}
        self._not_before = 0.0
        self._up = asyncio.Event()
        self._reporting = asyncio.Lock()
        self._resized = asyncio.Event()
        self._stopping: set[asyncio.Task[int]] = set()

    async def run(self) -> Outcome:
        """Return how the job ended."""
        prepare(self.directory, self.entry.uid)
        announcing = asyncio.create_task(self._announce())
        try:
            async with asyncio.timeout(self.plan.active_deadline_s):
                await self._run()
                await self._announce_once()
            outcome = Outcome(success=True, exit_codes=self._reported_codes())
        except TimeoutError:
            await self._stop_all()
            outcome = self._failed("Job was active longer than specified deadline")
        except JobFailedError as error:
            await self._stop_all()
            outcome = self._failed(str(error))
        except asyncio.CancelledError:
            await self._stop_all()
            raise
        finally:
            announcing.cancel()
        (self.directory / RESULT).write_bytes(msgspec.json.encode(outcome))
        return outcome

    def _failed(self, message: str) -> Outcome:
        return Outcome(success=False, message=message, exit_codes=self._reported_codes())

    def _reported_codes(self) -> dict[str, int]:
        failed_first = sorted(self._codes.items(), key=lambda item: item[1] == 0)
        return dict(failed_first[:MAX_EXIT_CODES])

    async def _announce(self) -> None:
        """Report that all pods run: once, and again after each resize."""
        while True:
            await self._up.wait()
            await self._announce_once()

    async def _announce_once(self) -> None:
        async with self._reporting:
            if self._up.is_set():
                self._up.clear()
                await self._ready()

    def resize(self, entry: DispatchEntry, plan: Plan) -> None:
        """Run as many pods as *entry* grants: the same ones go on, the highest indexes end first (WS7)."""
        self.entry, self.plan = entry, plan
        granted = {pods.name: pods for pods in entry.pod_sets}
        plans = {pods.name: pods for pods in plan.pod_sets}
        for pods in self._pod_sets:
            pods.plan, pods.granted = plans[pods.plan.name], granted[pods.plan.name]
            pods.spawned = pods.active - len(pods.dropped)
            running = sorted(index for of, index in self._tasks.values() if of is pods)
            for index in reversed(running):
                if pods.excess() <= 0:
                    break
                if index not in pods.dropped:
                    self._drop(pods, index)
            pods.spawned = min(pods.spawned, pods.active - len(pods.dropped))
        log.info("resized", job=entry.job, pods={p.plan.name: p.plan.parallelism for p in self._pod_sets})
        self._tell_if_up()
        self._resized.set()

    def _drop(self, pods: _PodSet, index: int) -> None:
        """End one pod: TERM, then KILL. One that is just being started ends when it has been."""
        pods.dropped.add(index)
        found = self._processes.get(f"{key_token(pods.plan.name)}-{index}")
        if found is not None:
            process, grace_s = found
            stopping = asyncio.create_task(process.stop(grace_s))
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)

    def _tell_if_up(self) -> None:
        if all(each.spawned >= each.first for each in self._pod_sets):
            self._up.set()

    async def _run(self) -> None:
        """Keep as many pods running as are wanted, until all have succeeded."""
        while not all(pods.complete for pods in self._pod_sets):
            delay_s = max(0.0, self._not_before - time.monotonic())
            if not delay_s:
                self._start_wanted()
            # With parallelism 0 there is nothing to do until the job is stopped or resized.
            resized = asyncio.create_task(self._resized.wait())
            try:
                await asyncio.wait(
                    (*self._tasks, resized), timeout=delay_s or None, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                resized.cancel()
            self._resized.clear()
            done = {task for task in self._tasks if task.done()}
            if done:
                await self._ended(done)

    def _start_wanted(self) -> None:
        for pods in self._pod_sets:
            for _ in range(pods.wants()):
                index = pods.take_index()
                pods.active += 1
                task = asyncio.create_task(self._pod(pods, index))
                self._tasks[task] = (pods, index)

    async def _pod(self, pods: _PodSet, index: int) -> int:
        """Run one pod once, and return its exit code."""
        plan, machine, entry = pods.plan, self.machine, self.entry
        pod = f"{key_token(plan.name)}-{index}"
        own = pod_env(
            entry, pods.granted, index, indexed=plan.indexed, agent=machine.agent, cell=machine.cell
        )
        command, env = resolve(plan, own)
        process = await start(
            command,
            {**machine.base_env, **env},
            Path(plan.working_dir) if plan.working_dir else self.directory,
            self.directory / f"{pod}.log",
            self.directory / f"{pod}.pid",
            PidFile(0, 0.0, entry.job, entry.uid, entry.attempt),
        )
        if index not in pods.dropped:
            pods.spawned += 1
        self._tell_if_up()
        if isinstance(process, int):
            return process
        self._processes[pod] = (process, machine.grace_s if plan.grace_s is None else plan.grace_s)
        if index in pods.dropped:
            self._drop(pods, index)
        code = await process.wait()
        self._processes.pop(pod, None)
        return code

    async def _ended(self, done: set[asyncio.Task[int]]) -> None:
        """Count pods that ended. A failed one is tried again, after a while, up to the backoff limit."""
        for task in done:
            pods, index = self._tasks.pop(task)
            code = task.result()
            pods.active -= 1
            if index in pods.dropped:
                pods.dropped.discard(index)
                if code != 0:
                    pods.again = sorted([*pods.again, index])
                    continue
            self._codes[f"{pods.plan.name}-{index}"] = code
            if code == 0:
                pods.succeeded += 1
                continue
            log.info("pod failed", job=self.entry.job, pod=f"{pods.plan.name}-{index}", exit_code=code)
            self._failures += 1
            if self._failures > self.plan.backoff_limit:
                raise JobFailedError(
                    "Job has reached the specified backoff limit "
                    f"(pod {pods.plan.name}-{index}: {describe_exit(code)})"
                )
            pods.again = sorted([*pods.again, index])
            delay_s = self.machine.retry_delay_s * 2 ** (self._failures - 1)
            self._not_before = time.monotonic() + min(delay_s, RETRY_MOST_S)
        reclaimable = {pods.plan.name: n for pods in self._pod_sets if (n := pods.reclaimable)}
        if reclaimable and not all(pods.complete for pods in self._pod_sets):
            await self._reclaimable(reclaimable)

    async def _stop_all(self) -> None:
        """End all pods at once, each with its grace period. A second cancellation does not cut it short."""
        stopping = asyncio.ensure_future(self._stop_processes())
        while not stopping.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(stopping)
        stopping.result()

    async def _stop_processes(self) -> None:
        await asyncio.gather(*(process.stop(grace_s) for process, grace_s in list(self._processes.values())))
        # A pod that was just being started has a process by now; nothing waits for it to end by itself.
        while self._tasks:
            done, _ = await asyncio.wait(self._tasks, timeout=0.02)
            for task in done:
                del self._tasks[task]
            late = [process.stop(grace_s) for process, grace_s in list(self._processes.values())]
            await asyncio.gather(*late)
        entry, work_dir = self.entry, str(self.machine.work_dir)
        await end_processes(strays(job=entry.job, attempt=str(entry.attempt), work_dir=work_dir), 0.0)


def describe_exit(code: int) -> str:
    """Return an exit code in words: `exit code 3`, `killed by SIGKILL`."""
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"


def current_env() -> dict[str, str]:
    return inherited(os.environ)
