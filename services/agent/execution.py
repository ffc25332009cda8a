"""One attempt of one job on this machine: its pods as processes, driven by the machine in `pods`."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
import structlog

from sluice.core.timing import MICROS_PER_S
from sluice.events.base import Micros
from sluice.local.process_start import end_all
from sluice.protocol.dispatch import DispatchEntry, key_token
from sluice.sdk import Outcome

from .errors import PlanError
from .files import RESULT, prepare
from .guardian import KILLING_S
from .isolation import User, restrained
from .orphans import strays
from .plan import Plan, pod_env, resolve
from .pods import (
    COUNTED,
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
from .process import NOT_EXECUTABLE, PidFile, PodProcess, start
from .secrets import read_secret

RETRY_MOST_S = 60.0

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
    user: User | None = None
    """Whom pods run as; the agent's own user by default."""
    limits: Mapping[int, int] = field(default_factory=dict)
    secrets: Path | None = None
    """Where the secrets are that manifests name."""

    @property
    def timing(self) -> Timing:
        return Timing(
            grace=int(self.grace_s * MICROS_PER_S),
            retry_delay=int(self.retry_delay_s * MICROS_PER_S),
            retry_most=int(RETRY_MOST_S * MICROS_PER_S),
        )

    def directory(self, job: str, attempt: int) -> Path:
        """Return `<namespace>/<job>/<attempt>` under the work directory."""
        namespace, _, name = job.partition("/")
        return self.work_dir / key_token(namespace) / key_token(name) / str(attempt)


class Execution:
    """Runs a plan to its end, or until cancelled: then everything has ended when the cancellation shows.

    What to do is decided by `pods.Pods`; here are the processes, the clock and the reports.
    """

    def __init__(
        self,
        machine: Machine,
        entry: DispatchEntry,
        plan: Plan,
        *,
        ready: Callable[[], Awaitable[None]],
        reclaimable: Callable[[dict[str, int], dict[str, int]], Awaitable[None]],
    ) -> None:
        self.machine, self.entry, self.plan = machine, entry, plan
        self._ready, self._reclaimable = ready, reclaimable
        self.directory = machine.directory(entry.job, entry.attempt)
        self._home = self.directory
        self._pods = Pods(plan, machine.timing)
        self._processes: dict[PodId, PodProcess] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._begun = False
        self._ended: Ended | None = None
        self._to_report = asyncio.Event()
        self._reporting = asyncio.Lock()
        self._up = False
        self._freed: ReportReclaimable | None = None

    async def run(self) -> Outcome:
        """Return how the job ended."""
        self._home = prepare(self.directory, self.entry.uid, self.machine.user)
        reporting = asyncio.create_task(self._report())
        try:
            ended = await self._run()
            if ended.how is not End.SUCCEEDED:
                await _surely(self._sweep())
            if ended.how is End.STOPPED:
                raise asyncio.CancelledError
            codes = dict(ended.exit_codes)
            outcome = Outcome(success=ended.how is End.SUCCEEDED, message=ended.message, exit_codes=codes)
            (self.directory / RESULT).write_bytes(msgspec.json.encode(outcome))
            if outcome.success:
                # Stopped meanwhile, it has succeeded all the same.
                with contextlib.suppress(asyncio.CancelledError):
                    await self._report_now()
        finally:
            reporting.cancel()
        return outcome

    async def _run(self) -> Ended:
        """Drive the machine until no pod is left. A second cancellation does not cut it short."""
        self._begun = True
        self._do(self._pods.begin(now()))
        while self._ended is None:
            try:
                await self._wait()
            except asyncio.CancelledError:
                self._do(self._pods.stop(now()))
        return self._ended

    async def _wait(self) -> None:
        """Wait until something has changed, or until it is time for something."""
        deadline = self._pods.deadline()
        timeout_s = None if deadline is None else max(0, deadline - now()) / MICROS_PER_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        self._do(self._pods.tick(now()))
        self._changed.clear()

    def resize(self, entry: DispatchEntry, plan: Plan) -> None:
        """Run as many pods as *entry* grants: the same ones go on, the highest indexes end first (WS7)."""
        self.entry, self.plan = entry, plan
        self._freed = None  # it was out of another size
        log.info("resized", job=entry.job, pods={p.name: p.parallelism for p in plan.pod_sets})
        if self._begun:
            self._do(self._pods.resize(plan, now()))
        else:
            self._pods = Pods(plan, self.machine.timing)

    def hurry(self, within_s: float) -> None:
        """Let nothing be left after that time, when it is stopped; KILL and what strays take some of it."""
        self._pods.hurry(int(max(0.0, within_s - KILLING_S) * MICROS_PER_S), now())
        self._changed.set()

    def _do(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case StartPod(pod):
                    task = asyncio.create_task(self._pod(pod))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                case TermPod(pod):
                    self._processes[pod].signal(signal.SIGTERM)
                case KillPod(pod):
                    self._processes[pod].signal(signal.SIGKILL)
                case ReportReady():
                    self._up = True
                    self._to_report.set()
                case ReportReclaimable():
                    self._freed = command
                    self._to_report.set()
                case Ended():
                    self._ended = command
        self._changed.set()

    # Pods

    async def _pod(self, pod: PodId) -> None:
        """Run one pod once, and tell the machine of it."""
        try:
            code = await self._life(pod)
        except Exception:
            # Whatever it was, the job must not wait for this pod for ever.
            log.exception("pod not run", job=self.entry.job, pod=str(pod))
            await self._sweep(pod=self._name(pod))
            code = NOT_EXECUTABLE
        self._processes.pop(pod, None)
        self._exited(pod, code)

    async def _life(self, pod: PodId) -> int:
        """Return the exit code of one pod, once nothing is left of it."""
        process = await self._start(pod)
        if isinstance(process, int):
            return process
        self._processes[pod] = process
        self._do(self._pods.started(pod, now()))
        code = await process.wait()
        if self._pods.state(pod) is not Pod.RUNNING:
            await self._sweep(pod=self._name(pod))
        return code

    def _exited(self, pod: PodId, code: int) -> None:
        if code and self._pods.state(pod) in COUNTED:
            log.info("pod failed", job=self.entry.job, pod=str(pod), exit_code=code)
        self._do(self._pods.exited(pod, code, now()))

    async def _start(self, pod: PodId) -> PodProcess | int:
        machine, entry = self.machine, self.entry
        plan = next(pods for pods in self.plan.pod_sets if pods.name == pod.pod_set)
        granted = next(pods for pods in entry.pod_sets if pods.name == pod.pod_set)
        own = pod_env(entry, granted, pod.index, indexed=plan.indexed, agent=machine.agent, cell=machine.cell)
        file = f"{key_token(pod.pod_set)}-{pod.index}"
        namespace = entry.job.partition("/")[0]
        try:
            command, env = resolve(plan, own, partial(read_secret, machine.secrets, namespace))
        except PlanError as error:
            with (self.directory / f"{file}.log").open("a") as output:
                output.write(f"cannot be started: {error}\n")
            return NOT_EXECUTABLE
        return await start(
            command,
            {**machine.base_env, **env},
            Path(plan.working_dir) if plan.working_dir else self._home,
            self.directory / f"{file}.log",
            self.directory / f"{file}.pid",
            PidFile(0, 0.0, entry.job, entry.uid, entry.attempt),
            restrained(machine.limits, machine.user),
        )

    def _name(self, pod: PodId) -> str:
        return f"{self.entry.job.partition('/')[2]}-{pod}"

    async def _sweep(self, **marks: str) -> None:
        """Kill what pods that were ended have left in other sessions."""
        entry, work_dir = self.entry, str(self.machine.work_dir)
        left = strays(job=entry.job, attempt=str(entry.attempt), work_dir=work_dir, **marks)
        if left:
            await asyncio.to_thread(end_all, left, 0.0)

    # Reports

    async def _report(self) -> None:
        """Report as long as there is something to report; pods do not wait for a server that is away."""
        while True:
            await self._to_report.wait()
            await self._report_now()

    async def _report_now(self) -> None:
        async with self._reporting:
            self._to_report.clear()
            up, self._up = self._up, False
            freed, self._freed = self._freed, None
            if up:
                await self._ready()
            if freed is not None and self._ended is None:
                await self._reclaimable(dict(freed.pods), dict(freed.succeeded))


async def _surely(work: Coroutine[None, None, None]) -> None:
    """Wait for *work*, whatever cancels this."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    task.result()


def now() -> Micros:
    """Return the time that the machine is told; it never goes back."""
    return time.monotonic_ns() // 1000
