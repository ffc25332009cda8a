"""`sluice up` and `sluice down`: a cell on this machine."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import click

from sluice.cli.cell.client import DEFAULT_CELL, Target
from sluice.cli.kit.durations import human
from sluice.cli.kit.errors import EXIT_TIMEOUT, CliError, plural
from sluice.cli.kit.settings import Settings
from sluice.cli.kit.terminal import echo, echo_over
from sluice.local.cell_directory import DEMO, DIRECTORY, CellState, Place, find
from sluice.local.processes import CONSOLE_PORT, free_port
from sluice.log.errors import ServerError
from sluice.log.nats.protocol import shown

from .health import Health, check
from .leftovers import end_leftovers
from .supervisor import (
    ARCHIVIST,
    CHECK_PREFIX,
    CONSOLE,
    SERVICES,
    SHIPPED_CHECKS,
    Supervisor,
    is_running,
    tail,
)

START_TIMEOUT_S = 120.0
TEND_EVERY_S = 0.3


def _sync_interval(_ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
    if value != "always" and not re.fullmatch(r"[1-9][0-9]{0,5}(ms|s|m|h)", value):
        raise click.BadParameter(f"{value!r} is neither `always` nor an interval such as 10s or 2m")
    return value


@click.command()
@click.option("-d", "--detach", is_flag=True, help="Return when all is healthy; the cell runs on.")
@click.option("--dir", "directory", metavar="DIR", help="The cell's directory (default: ./.sluice).")
@click.option(
    "-p", "--port", type=click.IntRange(0, 65535), default=0, help="The server's port (0: a free one)."
)
@click.option(
    "-a", "--agents", type=click.IntRange(0, 64), default=2, show_default=True, help="Agents to run."
)
@click.option("--replicas", type=click.IntRange(1, 8), default=1, help="Of each service; one leads.")
@click.option(
    "--check",
    "checks",
    type=click.Choice(SHIPPED_CHECKS),
    multiple=True,
    help="A check that comes with Sluice, to be run too; may be repeated.",
)
@click.option(
    "--sync",
    default="2m",
    show_default=True,
    metavar="INTERVAL",
    callback=_sync_interval,
    help="How often the log is flushed to disk: 10s, 2m; `always`: with every message, for power losses.",
)
@click.option(
    "--console/--no-console",
    default=True,
    envvar="SLUICE_UP_CONSOLE",
    help="Run the console, for a browser on this machine (default), or not.",
)
@click.option(
    "--run-as", default="", metavar="USER", help="Run jobs as this user; needs root (default: as you)."
)
@click.option("--timeout", default=START_TIMEOUT_S, show_default=True, help="Seconds to wait for health.")
@click.pass_obj
def up(
    settings: Settings,
    detach: bool,
    directory: str | None,
    port: int,
    agents: int,
    replicas: int,
    checks: tuple[str, ...],
    sync: str,
    console: bool,
    run_as: str,
    timeout: float,
) -> None:
    """Start a cell: a NATS server with the log, the services, and agents that run jobs.

    Everything it keeps is in one directory, ./.sluice by default, with the processes' logs. Started again
    there, it goes on where it was. Without --detach it stays in the foreground until Ctrl-C.

    \b
    Examples:
      sluice up                     in the foreground
      sluice up -d                  in the background; `sluice down` ends it
      sluice up -d -p 4222 -a 4     a given port, four agents
      sluice up -d --replicas 2     with stand-bys that take over
      sluice up -d --check budget   with the budget check
      sluice up -d --sync always    nothing acknowledged is lost when the power fails
    """
    place = Place(Path(directory) if directory else Path.cwd() / DIRECTORY)
    shape = Shape(port, agents, replicas, tuple(dict.fromkeys(checks)), sync, timeout, run_as, console)
    if detach:
        _detach(place, settings, shape)
    else:
        _foreground(place, settings, shape)


class Shape(NamedTuple):
    """What is to be started."""

    port: int
    agents: int
    replicas: int
    checks: tuple[str, ...]
    sync: str
    timeout: float
    run_as: str = ""
    console: bool = False


def _archivist() -> tuple[str, ...]:
    """Return the service that archives, where its settings say so."""
    return (ARCHIVIST,) if os.environ.get("ARCHIVIST_ARCHIVE") else ()


def _foreground(place: Place, settings: Settings, shape: Shape) -> None:
    lock = place.take()
    if lock is None:
        raise _already(place)
    with lock, stop_signals() as stopped:
        supervisor = Supervisor(
            place,
            cell=settings.cell or DEFAULT_CELL,
            port=shape.port,
            agents=shape.agents,
            agent_env=[{"AGENT_RUN_AS": shape.run_as}] * shape.agents if shape.run_as else (),
            replicas=shape.replicas,
            sync=shape.sync,
            console_port=free_port(CONSOLE_PORT) if shape.console else None,
            services=(*SERVICES, *(f"{CHECK_PREFIX}{name}" for name in shape.checks), *_archivist()),
        )
        try:
            health = start(supervisor, shape.timeout, stopped=stopped)
            if health is not None:
                _say_up(supervisor.state(ready=True))
                echo("Ctrl-C stops it.")
                keep(supervisor, stopped)
        finally:
            if supervisor.children:
                echo(f"Stopping {plural(len(supervisor.children), 'process', 'processes')} and the server.")
            supervisor.stop()


def start(
    supervisor: Supervisor,
    timeout_s: float,
    *,
    stopped: Callable[[], bool],
    heard: Callable[[Health], None] | None = None,
) -> Health | None:
    """Start the cell and wait until every part is healthy; None when a signal came first.

    *heard* is told how it goes, again and again; without it standard error is.

    Raises:
        CliError: it did not come up in time, or a part ended; quotes that part's log.
    """
    try:
        supervisor.start()
    except ServerError as error:
        raise CliError(str(error), hint="Another port can be given with --port.") from None
    progress = Progress()
    show = heard or progress.show
    target = Target(supervisor.url, supervisor.cell)
    deadline = time.monotonic() + timeout_s
    try:
        while True:
            if stopped():
                return None
            health = asyncio.run(check(target, supervisor))
            show(health)
            if health.ok:
                supervisor.save(ready=True)
                return health
            _fail_on_crashes(supervisor)
            if time.monotonic() > deadline:
                raise CliError(
                    f"not healthy after {timeout_s:.0f} s: {health.problems()}",
                    hint=f"Logs are in {supervisor.place.logs}.",
                    exit_code=EXIT_TIMEOUT,
                )
            time.sleep(0.1)
    finally:
        if heard is None:
            progress.end()


CRASHES = 3


def _fail_on_crashes(supervisor: Supervisor) -> None:
    for child in supervisor.tend():
        if child.service != CONSOLE and child.restarts + 1 >= CRASHES:
            raise CliError(
                f"{child.label} ended {child.restarts + 1} times; the end of its log:\n{tail(child.log)}",
                hint=f"The whole log: {child.log}",
            )


def keep(supervisor: Supervisor, stopped: Callable[[], bool]) -> None:
    """Keep the cell running until a signal: restart what ends, and say so."""
    full = False
    while not stopped():
        time.sleep(TEND_EVERY_S)
        try:
            full = _tend(supervisor, full=full)
        except (OSError, ServerError) as error:
            # Most likely a full disk, to which this cannot be written either. What runs goes on running.
            with contextlib.suppress(OSError):
                echo(f"Not tended: {error}", err=True)


def _tend(supervisor: Supervisor, *, full: bool) -> bool:
    """Restart what has ended, and a server that cannot write; return whether the disk is full now.

    *full*: it was, and has been said to be.
    """
    store = supervisor.store
    again = store is not None and store.look()
    if not supervisor.server_alive():
        echo("The server ended; starting it again.", err=True)
        supervisor.revive_server()
    elif again:
        echo("The server was refused a write, and there is room: starting it again.", err=True)
        supervisor.revive_server()
    for child in supervisor.tend():
        echo(f"{child.label} ended; starting it again (log: {child.log}).", err=True)
    if store is not None and store.stuck and not full:
        echo(f"The disk with {store.directory} is full; nothing is decided until there is room.", err=True)
    return store is not None and store.stuck


@contextlib.contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Turn INT, TERM and HUP into a question: has one come? The old handlers are put back."""
    got: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        got.append(number)

    before = {which: signal.signal(which, note) for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield lambda: bool(got)
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


class Progress:
    """Says what is being waited for: one line that changes on a terminal, else one line per change."""

    def __init__(self) -> None:
        self.terminal = sys.stderr.isatty()
        self.last, self.frame = "", 0

    def show(self, health: Health) -> None:
        line = health.line()
        if self.terminal:
            self.frame += 1
            spinner = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"[self.frame % 10]
            echo_over(f"{spinner} {line}")
        elif line != self.last:
            echo(line, err=True)
        self.last = line

    def end(self) -> None:
        if self.terminal:
            echo_over()


def _already(place: Place) -> CliError:
    state = place.running(wait_s=5.0)
    if state is None:
        return CliError(f"another `sluice up` is just starting in {place.directory}")
    return CliError(
        f"a cell is already running in {place.directory}: {shown(state.url)} (pid {state.pid}, "
        f"up {human(time.time() - state.started_at)})",
        hint="See `sluice status`; `sluice down` stops it; --dir names another directory.",
    )


def _say_up(state: CellState) -> None:
    agents = sum(1 for process in state.processes if process.service == "agent")
    services = sum(1 for process in state.processes if process.service not in ("agent", CONSOLE))
    echo(
        f"Cell {state.cell!r} is up at {shown(state.url)}: "
        f"{plural(services, 'service')}, {plural(agents, 'agent')}."
    )
    if state.console:
        echo(f"Console: {state.console}")


def _detach(place: Place, settings: Settings, shape: Shape) -> None:
    if place.held():
        raise _already(place)
    place.logs.mkdir(parents=True, exist_ok=True)
    log = place.logs / "up.log"
    command = [sys.executable, "-P", "-m", "sluice.cli.main"]
    command += ["--cell", settings.cell] if settings.cell else []
    command += ["up", "--dir", str(place.directory), "--port", str(shape.port)]
    command += ["--agents", str(shape.agents), "--replicas", str(shape.replicas)]
    command += [word for name in shape.checks for word in ("--check", name)]
    command += ["--console" if shape.console else "--no-console"]
    command += ["--run-as", shape.run_as] if shape.run_as else []
    command += ["--sync", shape.sync, "--timeout", str(shape.timeout)]
    with log.open("ab") as out:
        offset = log.stat().st_size
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    state = _await_ready(place, process, shape.timeout + 5)
    if state is None:
        said = log.read_bytes()[offset:].decode(errors="replace").strip()
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        raise CliError(f"the cell did not come up:\n{said[-3000:]}", hint=f"The whole log: {log}")
    _say_up(state)
    echo(f"Data and logs are in {_shown(place.directory)}; `sluice down` stops it.")


def _stop_left_behind(place: Place) -> int:
    """End what a killed `up` (or demo) has left; return how many processes that were."""
    count = 0
    for each in (place, Place(place.directory / DEMO)):
        lock = each.take() if each.directory.is_dir() else None
        if lock is not None:
            with lock:
                count += end_leftovers(each)
                each.state_file.unlink(missing_ok=True)
    return count


def _await_ready(place: Place, process: subprocess.Popen[bytes], timeout_s: float) -> CellState | None:
    deadline = time.monotonic() + timeout_s
    terminal = sys.stderr.isatty()
    try:
        while time.monotonic() < deadline and process.poll() is None:
            state = place.read()
            if state is not None and state.pid == process.pid and state.ready:
                return state
            if terminal:
                frame = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"[int(time.monotonic() * 10) % 10]
                echo_over(f"{frame} starting")
            time.sleep(0.05)
        return None
    finally:
        if terminal:
            echo_over()


def _shown(path: Path) -> str:
    with contextlib.suppress(ValueError):
        return f"./{path.relative_to(Path.cwd())}"
    return str(path)


@click.command()
@click.option(
    "--dir", "directory", metavar="DIR", help="The cell's directory (default: the nearest .sluice)."
)
@click.option("--timeout", default=30.0, show_default=True, help="Seconds to wait.")
def down(directory: str | None, timeout: float) -> None:
    """Stop the cell that `sluice up` started here: agents and their jobs, services, server.

    The log and the queues stay; the next `sluice up` goes on with them.
    """
    place = Place(Path(directory)) if directory else find(Path.cwd()) or Place(Path.cwd() / DIRECTORY)
    state = place.running(wait_s=2.0)
    if state is None:
        left = _stop_left_behind(place)
        if left:
            echo(f"Stopped {plural(left, 'process', 'processes')} that a killed `sluice up` had left.")
        else:
            echo(f"No cell is running in {_shown(place.directory)}.")
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(state.pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    # The lock is given back a moment before the process has gone.
    while place.held() or is_running(state.pid):
        if time.monotonic() > deadline:
            raise CliError(
                f"the cell (pid {state.pid}) does not stop", hint=f"See {place.logs}.", exit_code=EXIT_TIMEOUT
            )
        time.sleep(0.03)
    echo(f"Stopped cell {state.cell!r} ({plural(len(state.processes) + 1, 'process', 'processes')}).")
