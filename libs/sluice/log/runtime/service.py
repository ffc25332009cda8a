"""A service around a decider: configuration, connections, role, health, and an end in order.

def main() -> None:
    run_service("scheduler", Scheduler(), telemetry=telemetry.start)
"""

import asyncio
import contextlib
import hashlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
import structlog
import uvloop

from sluice import __version__
from sluice.log.decider import Decider
from sluice.log.errors import EventLogError
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.objects import ObjectBucket
from sluice.log.nats.responder import Answer, Responder

from . import gc_tuning
from .bases import Bases
from .clock import BoundedClock, ask_server, follow_server
from .config import CellConfig, load_cell, refuse
from .hooks import Hooks
from .lease import KvLease
from .metrics import RunnerMetrics
from .projection import Projection, Publisher
from .runner import Runner, Settings
from .snapshot import Snapshots

__all__ = ["Shell", "run_service"]

STOP_GRACE_S = 2.0

log = structlog.get_logger("sluice.log.service")


class Telemetry(Protocol):
    """Where logs, metrics and traces of the process go; `sluice.telemetry.start` makes one."""

    def observe(self, metrics: RunnerMetrics) -> None: ...

    def close(self) -> None: ...


StartTelemetry = Callable[[str, str, Mapping[str, str]], Telemetry]
"""From service, instance and environment."""


class Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a replica says about itself on `sluice.<cell>.control.<service>.status`."""

    service: str
    instance: str
    pid: int
    role: str
    upto: int
    """Last input folded."""
    own: int
    """Last commit of its chain folded or written."""
    lag: int
    """Log entries not folded yet, as far as is known."""
    settled: bool
    """A leader with nothing left to decide or to commit."""
    events: int
    commits: int
    takeovers: int
    fenced: int
    version: str = __version__


class Digest(Status, frozen=True, kw_only=True, rename="camel"):
    """Answer on `sluice.<cell>.control.<service>.digest`: SHA-256 of the state, as of `upto` and `own`.

    A stand-by answers for the state that it would lead from.
    """

    digest: str
    size: int


class Shell[S]:
    """Everything around one runner. `ready` is set once the state has been rebuilt."""

    def __init__(
        self,
        name: str,
        decider: Decider[S],
        config: CellConfig,
        *,
        projections: Sequence[Projection[S]] = (),
        hooks: Sequence[Hooks[S]] = (),
        settings: Settings | None = None,
        lease: str = "",
    ) -> None:
        self.name, self.config = name, config
        self.log = JetStreamLog(config.nats_url, config.cell, name=name, replicas=config.replicas)
        self.lease = KvLease(self.log, lease or name, config.instance, config.lease_ttl_s)
        self.responder = Responder(config.nats_url, f"{name}-{config.instance}")
        self.publishers = [Publisher(each, self.log, self._confirm) for each in projections]
        self.clock = BoundedClock()
        self.runner: Runner[S] = Runner(
            decider,
            self.log,
            clock=self.clock,
            leadership=self.lease,
            snapshots=Snapshots(ObjectBucket(self.log)),
            bases=Bases(ObjectBucket(self.log, "bases")),
            hooks=[*self.publishers, *hooks],
            settings=settings
            or Settings(
                snapshot_events=config.snapshot_events,
                snapshot_s=config.snapshot_s,
                mark_inputs=config.mark_inputs,
            ),
        )

    async def _confirm(self) -> bool:
        """Tell whether this replica leads, in the log that it has read: another may have been put back."""
        tail = self.runner.tail
        return tail is not None and tail.sure and await self.lease.confirm() and tail.sure

    async def serve(self, setup: "Setup | None" = None) -> None:
        """Run until `stop`, or until the log cannot be followed any more (raises `EventLogError`)."""
        await self.log.open(None)
        await self._offer()
        await ask_server(self.clock, self.log)
        cleanup = await setup(self) if setup is not None else None
        log.info("started", service=self.name, cell=self.config.cell, instance=self.config.instance)
        watching = asyncio.create_task(follow_server(self.clock, self.log), name="clock")
        try:
            await self.runner.run()
        finally:
            watching.cancel()
            with contextlib.suppress(Exception):
                async with asyncio.timeout(STOP_GRACE_S):
                    if cleanup is not None:
                        await cleanup()
                    await self.responder.close()
            await self.log.close()
            log.info("stopped", service=self.name)

    def stop(self) -> None:
        self.runner.stop()

    async def _offer(self) -> None:
        """Answer on the services API (`$SRV.PING|INFO|STATS`), and questions on the control subjects.

        Every replica answers the latter: who asks tells them apart by instance and role.
        """
        cell, responder = self.log.cell, self.responder
        await responder.open_in_the_end()
        await responder.offer(
            f"sluice-{self.name}",
            __version__,
            f"{self.name} of the Sluice cell {cell.name}",
            {"cell": cell.name, "instance": self.config.instance, "pid": str(os.getpid())},
            lambda: dict(msgspec.to_builtins(self.status())),
        )
        status = _answering(self.status)
        await responder.endpoint("health", cell.control(self.name, "health"), status)
        await responder.subscribe(cell.control(self.name, "status"), status)
        await responder.subscribe(cell.control(self.name, "digest"), _answering(self.digest))

    def status(self) -> Status:
        return Status(**self._status())

    def _status(self) -> dict[str, Any]:
        runner = self.runner
        metrics = runner.metrics
        return {
            "service": self.name,
            "instance": self.config.instance,
            "pid": os.getpid(),
            "role": runner.role,
            "upto": runner.fold.upto,
            "own": runner.fold.own,
            "lag": metrics.lag,
            "settled": runner.settled,
            "events": metrics.folded,
            "commits": metrics.commits,
            "takeovers": metrics.takeovers,
            "fenced": metrics.fenced,
        }

    def digest(self) -> Digest:
        runner = self.runner
        fold = runner.fold if runner.role == "leader" else runner.settled_copy()
        data = runner.decider.dump(fold.state)
        place = {"upto": fold.upto, "own": fold.own}
        digest = hashlib.sha256(data).hexdigest()
        return Digest(**(self._status() | place), digest=digest, size=len(data))


Setup = Callable[[Shell[Any]], Awaitable[Callable[[], Awaitable[None]] | None]]
"""A service's own start, with connections open and before the log is folded; may return its own end."""


def _answering(answer: Callable[[], msgspec.Struct]) -> Answer:
    async def handle(_: bytes) -> bytes:
        return msgspec.json.encode(answer())

    return handle


async def _run[S](shell: Shell[S], setup: Setup | None) -> int:
    loop = asyncio.get_running_loop()
    serving = asyncio.create_task(shell.serve(setup), name=shell.name)
    stopping = asyncio.Event()

    def stop() -> None:
        stopping.set()
        shell.stop()

    for which in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(which, stop)
    waiting = asyncio.create_task(stopping.wait())
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if not serving.done() and shell.runner.role != "starting":
        # Whatever does not end by itself waits for a server that is away.
        await asyncio.wait({serving}, timeout=shell.runner.settings.stop_s + STOP_GRACE_S)
    serving.cancel()
    waiting.cancel()
    try:
        await serving
    except asyncio.CancelledError:
        log.warning("stopped while the log was away", service=shell.name)
    except EventLogError as error:
        log.error("cannot go on", service=shell.name, error=str(error), kind=type(error).__name__)
        return 1
    return 0


def run_service[S](
    name: str,
    decider: Decider[S],
    *,
    projections: Sequence[Projection[S]] = (),
    hooks: Sequence[Hooks[S]] = (),
    setup: Setup | None = None,
    settings: Settings | None = None,
    telemetry: StartTelemetry | None = None,
    env: Mapping[str, str] | None = None,
    lease: str = "",
) -> None:
    """Run a service until SIGTERM or SIGINT, then exit: 0 in order, 1 for a fault, 2 for a bad setting.

    *setup* is called with the connections open and before the log is folded. *lease*: name of the lease,
    the service's by default; replicas with different ones are leaders at once (for tests of fencing).
    """
    env = os.environ if env is None else env
    try:
        config = load_cell(env)
        observer = telemetry(name, config.instance, env) if telemetry is not None else None
    except ValueError as error:
        refuse(name, error)

    async def main() -> int:
        shell = Shell(
            name, decider, config, projections=projections, hooks=hooks, settings=settings, lease=lease
        )
        if observer is not None:
            observer.observe(shell.runner.metrics)
        return await _run(shell, setup)

    gc_tuning.tune()
    code = uvloop.run(main())
    if observer is not None:
        observer.close()
    sys.exit(code)
