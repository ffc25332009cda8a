"""The agent: an executor whose work is local processes."""

import asyncio
import contextlib
import fcntl
import os
import time
from functools import partial
from pathlib import Path
from typing import IO, Protocol

import msgspec
import structlog

from sluice.api.decode import decode_json
from sluice.api.errors import InvalidError
from sluice.api.meta import Manifest
from sluice.local.process_start import KILL_S
from sluice.local.processes import service_command
from sluice.log.runtime.config import CellConfig
from sluice.protocol.dispatch import DispatchEntry
from sluice.sdk import AsyncClient, Executor, ExecutorSettings, Outcome, Work
from sluice.sdk.claims import Held

from .config import Config
from .errors import ImageError, PlanError
from .execution import Execution, Machine
from .guardian import GRACE_MOST_S, KILLING_S
from .isolation import inherited, not_isolated
from .orphans import earlier_outcome, end_orphans, remove_old
from .plan import Plan, make_plan

CLEAN_EVERY_S = 3600.0
LOCK_WAIT_S = GRACE_MOST_S + KILL_S + 1.0
"""Longest time that a guardian works after its agent's death."""

log = structlog.get_logger("sluice.agent")


STOP_S = GRACE_MOST_S + KILLING_S
"""How long before a lease is over the pods are told to end."""


class AgentError(Exception):
    """The agent cannot work here."""


class Attempted(Protocol):
    """What is read here of `Work`."""

    entry: DispatchEntry

    async def manifest(self) -> msgspec.Raw: ...


class Resized(Protocol):
    def resize(self, entry: DispatchEntry, plan: Plan) -> None: ...


class Resizing:
    """Hands on the sizes of one attempt, and with them the manifest in force, which may be another one."""

    def __init__(self, work: Attempted, execution: Resized, manifest: Manifest, manifest_seq: int) -> None:
        self._work, self._execution = work, execution
        self._manifest, self._manifest_seq = manifest, manifest_seq
        self._reading: asyncio.Task[None] | None = None

    def resize(self, entry: DispatchEntry) -> None:
        """Run as many pods as *entry* has, at once; how many must succeed, the manifest may say later."""
        self._plan(entry)
        if entry.manifest_seq != self._manifest_seq and self._reading is None:
            self._reading = asyncio.create_task(self._read())

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    async def _read(self) -> None:
        while (seq := self._work.entry.manifest_seq) != self._manifest_seq:
            try:
                self._manifest = decode_json(await self._work.manifest())
            except (InvalidError, LookupError) as error:
                log.error("manifest not read", job=self._work.entry.job, seq=seq, error=str(error))
            self._manifest_seq = seq
            self._plan(self._work.entry)
        self._reading = None

    def _plan(self, entry: DispatchEntry) -> None:
        try:
            self._execution.resize(entry, make_plan(self._manifest, entry))
        except PlanError as error:
            log.error("not resized", job=entry.job, error=str(error))


class Agent:
    """Runs dispatched jobs on this machine until `stop`."""

    def __init__(self, cell: CellConfig, config: Config) -> None:
        self.cell, self.config = cell, config
        self.work_dir = Path(config.work_dir)
        self.client = AsyncClient(cell.nats_url, cell.cell, source=f"agent/{config.name}")
        self.user, limits = config.user, config.pod_limits
        base_env = inherited(os.environ, config.passed) | {"SLUICE_WORK_DIR": str(self.work_dir)}
        log.info("isolation", user=self.user and self.user.name, not_isolated=not_isolated(self.user, limits))
        self.machine = Machine(
            agent=config.name,
            cell=cell.cell,
            work_dir=self.work_dir,
            grace_s=config.grace_s,
            retry_delay_s=config.retry_delay_s,
            base_env=base_env | (self.user.env if self.user else {}),
            user=self.user,
            limits=limits,
            secrets=Path(config.secrets_dir) if config.secrets_dir else None,
        )
        self.executor = Executor(
            self.client,
            config.name,
            self.run_work,
            settings=ExecutorSettings(
                flavors=config.flavor_names,
                kinds=config.kind_names,
                namespaces=config.namespace_names,
                capacity=config.capacity,
                heartbeat_s=config.heartbeat_s,
                ttl_s=config.heartbeat_ttl_s,
                takeover_s=config.takeover_s,
                on_loss=config.on_loss,
                requeue_after_s=config.requeue_after_s,
                lease=config.lease,
                stop_s=STOP_S,
            ),
            recover=self.recover,
            accepts=can_run,
        )
        self._lock: IO[bytes] | None = None

    def stop(self) -> None:
        self.executor.stop()

    async def serve(self) -> None:
        """Work until `stop`.

        Raises:
            AgentError: another agent works in the same directory.
            DuplicateExecutorError: another agent has this name.
        """
        await self._take_directory()
        await end_orphans(self.config.name, self.work_dir, self.config.grace_s)
        guardian = await self._start_guardian()
        self.executor.on_lease = partial(_tell_lease, guardian)
        cleaning = asyncio.create_task(self._clean_regularly())
        try:
            await self.executor.serve()
        finally:
            cleaning.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await cleaning
            await self.client.close()
            # Everything has ended in order.
            with contextlib.suppress(ProcessLookupError):
                guardian.kill()
            await guardian.wait()

    async def _take_directory(self) -> None:
        """Lock the directory; an earlier life's guardian may still be at work in it."""
        self.work_dir.mkdir(parents=True, exist_ok=True)
        lock = (self.work_dir / "agent.lock").open("ab")
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    lock.close()
                    raise AgentError(f"{self.work_dir}: another agent works in this directory") from None
                await asyncio.sleep(0.05)
        self._lock = lock

    async def _start_guardian(self) -> asyncio.subprocess.Process:
        """Start the process that ends the pods if this one is killed."""
        return await asyncio.create_subprocess_exec(
            *service_command(
                "agent.guardian", self.config.name, str(self.work_dir), str(self.config.grace_s)
            ),
            stdin=asyncio.subprocess.PIPE,
            start_new_session=True,
            # It knows no server, and so needs no password.
            env=inherited(os.environ, ("PYTHON*", "VIRTUAL_ENV")),
        )

    async def _clean_regularly(self) -> None:
        while True:
            removed = await asyncio.to_thread(remove_old, self.work_dir, self.config.keep_days * 86_400)
            if removed:
                log.info("removed old attempts", count=removed)
            await asyncio.sleep(CLEAN_EVERY_S)

    async def run_work(self, work: Work) -> Outcome:
        """Run one attempt to its end."""
        entry = work.entry
        log.info("running", job=entry.job, attempt=entry.attempt)
        try:
            manifest = decode_json(await work.manifest())
            plan = make_plan(manifest, entry)
        except (PlanError, InvalidError, LookupError) as error:
            return Outcome(success=False, message=f"agent {self.config.name}: {error}")
        execution = Execution(self.machine, entry, plan, ready=work.ready, reclaimable=work.reclaimable)
        resizing = Resizing(work, execution, manifest, entry.manifest_seq)
        work.on_resize = resizing.resize
        work.on_lease_end = execution.hurry
        if work.entry is not entry:
            resizing.resize(work.entry)
        try:
            outcome = await execution.run()
        finally:
            resizing.close()
        log.info(
            "finished",
            job=entry.job,
            attempt=entry.attempt,
            success=outcome.success,
            message=outcome.message,
        )
        return outcome

    async def recover(self, held: Held) -> Outcome | None:
        """Return how an attempt of an earlier life ended; its processes have been ended by now."""
        return earlier_outcome(self.machine.directory(held.job, held.attempt), held.uid)


def can_run(entry: DispatchEntry, data: msgspec.Raw) -> bool:
    """Tell whether agents can run a job: not images without a command, which other executors may run.

    What is wrong otherwise is said as the job's end.
    """
    try:
        make_plan(decode_json(data), entry)
    except ImageError:
        log.info("left alone: an image and no command", job=entry.job)
        return False
    except (PlanError, InvalidError):
        pass
    return True


def _tell_lease(guardian: asyncio.subprocess.Process, until: float) -> None:
    """Let the guardian end the pods at that time, unless it hears of a later one: this process may hang."""
    if guardian.returncode is None and guardian.stdin is not None:
        guardian.stdin.write(f"{until}\n".encode())
