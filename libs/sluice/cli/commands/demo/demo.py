"""`sluice demo`, what `make run` starts: a whole cell, real jobs, and what became of them."""

import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from importlib.resources import files
from pathlib import Path

import click

from sluice.cli.cell.client import Api, Target, connect
from sluice.cli.cell.log_reader import open_log
from sluice.cli.cell.publish import publish_job_event
from sluice.cli.commands.cell.health import Health
from sluice.cli.commands.cell.supervisor import Supervisor
from sluice.cli.commands.cell.up import START_TIMEOUT_S, TEND_EVERY_S, keep, start, stop_signals
from sluice.cli.commands.log.log import ALL
from sluice.cli.kit.errors import EXIT_TIMEOUT, CliError, describe_status, joined, plural
from sluice.cli.kit.files import ManifestFile
from sluice.cli.kit.terminal import echo
from sluice.core.config.objects import KINDS
from sluice.local.cell_directory import DEMO, DIRECTORY, Place, find
from sluice.protocol.query import ApplyRequest, ListRequest

from .plan import Planned, load
from .report import Report
from .view import View, make

MANIFESTS = Path(str(files("sluice.cli") / "templates" / "demo")).resolve()
"""Package data; in a checkout that is `examples/demo`."""
RUN_TIMEOUT_S = 150.0
REFRESH_S = 0.2
PORTS_SERVICES = 2


@click.command()
@click.option(
    "--dir", "directory", metavar="DIR", help="Where to keep it (default: ./.sluice/demo, emptied first)."
)
@click.option("--agents", type=click.IntRange(1, 16), default=2, show_default=True, help="Agents to run.")
@click.option("--stay/--no-stay", default=None, help="Stay up afterwards (default: on a terminal only).")
@click.option("--timeout", default=RUN_TIMEOUT_S, show_default=True, help="Seconds for the jobs to end.")
def demo(directory: str | None, agents: int, stay: bool | None, timeout: float) -> None:
    """Start a cell, feed it a few dozen real jobs, and show what happens.

    Two teams share three kinds of capacity. First one team borrows what the other does not use; then the
    other takes it back; then somebody is in a hurry. Every decision ends up in the log, and the tables at
    the end are read from it.
    """
    config, jobs = load(MANIFESTS)
    place = Place(Path(directory) if directory else Path.cwd() / DIRECTORY / DEMO)
    lock = place.take()
    if lock is None:
        raise CliError(f"a demo is already running in {place.directory}", hint="Stop it, or use --dir.")
    with lock, stop_signals() as stopped:
        _empty(place)
        supervisor = Supervisor(place, agents=agents, env=_job_environment())
        try:
            staying = sys.stdout.isatty() if stay is None else stay
            report = _play(supervisor, config, jobs, timeout, stopped)
            _summary(report)
            _further(report, place, staying=staying)
            _require(report, len(jobs))
            if staying:
                echo("\nThe cell stays up until Ctrl-C.")
                keep(supervisor, stopped)
        except CliError as error:
            error.hint = f"{error.hint} Logs: {place.logs}".strip()
            raise
        finally:
            supervisor.stop()


def _play(
    supervisor: Supervisor,
    config: Sequence[ManifestFile],
    jobs: Sequence[Planned],
    timeout: float,
    stopped: Callable[[], bool],
) -> Report:
    view = make()
    try:
        agents = plural(supervisor.agents, "agent")
        view.step(
            f"starting a server, {len(supervisor.services)} services and {agents} as separate processes"
        )
        health = start(supervisor, START_TIMEOUT_S, stopped=stopped, heard=_starting(view))
        if health is None:
            raise CliError("interrupted", exit_code=130)
        target = Target(supervisor.url, supervisor.cell)
        report = asyncio.run(_Run(target, supervisor, view, stopped).play(config, jobs, timeout))
    finally:
        view.close()
    if report is None:
        raise CliError("interrupted", exit_code=130)
    return report


def _starting(view: View) -> Callable[[Health], None]:
    """Return what shows how far the start is, each time that another part is ready."""
    last = ""

    def heard(health: Health) -> None:
        nonlocal last
        late = [part.name for part in health.parts if not part.ok]
        line = f"{len(health.parts) - len(late)} of {len(health.parts)} are ready, waiting for {joined(late)}"
        if late and line != last:
            view.step(line)
        last = line

    return heard


class _Run:
    """One run: applies, submits on schedule, follows the log until every job is over."""

    def __init__(
        self, target: Target, supervisor: Supervisor, view: View, stopped: Callable[[], bool]
    ) -> None:
        self.target, self.supervisor, self.view, self.stopped = target, supervisor, view, stopped
        self.report = Report()

    async def play(
        self, config: Sequence[ManifestFile], jobs: Sequence[Planned], timeout_s: float
    ) -> Report | None:
        """Return the report; None when a signal came first.

        Raises:
            CliError: something was refused, ended, or took too long.
        """
        async with AsyncExitStack() as stack:
            api = await stack.enter_async_context(connect(self.target))
            log = await stack.enter_async_context(open_log(self.target))
            await self._apply(api, config)
            wake = asyncio.Event()
            tail = log.tail(1, ALL, wake.set)
            stack.push_async_callback(tail.close)
            started = time.monotonic()
            waiting = list(jobs)
            tended = 0.0
            while True:
                now = time.monotonic() - started
                waiting = await self._submit(api, waiting, now)
                self._fold(tail.take())
                await self._show(api, len(jobs))
                if self.stopped():
                    return None
                if not waiting and len(self.report.jobs) >= len(jobs) and not self.report.unfinished:
                    self.view.step("all jobs are over")
                    return self.report
                if now > timeout_s:
                    raise CliError(self._late(timeout_s, len(jobs)), exit_code=EXIT_TIMEOUT)
                if now - tended > TEND_EVERY_S:
                    tended = now
                    self._tend()
                await asyncio.sleep(REFRESH_S)

    async def _apply(self, api: Api, config: Sequence[ManifestFile]) -> None:
        order = {kind: number for number, kind in enumerate(KINDS)}
        ordered = sorted(config, key=lambda source: order.get(source.kind, 99))
        answer = await api.apply(ApplyRequest(objects=[source.written for source in ordered]))
        refused = [result.status for result in answer.results if result.status is not None]
        if refused:
            raise CliError("\n".join(describe_status(status) for status in refused))
        kinds: dict[str, int] = {}
        for result in answer.results:
            kinds[result.kind] = kinds.get(result.kind, 0) + 1
        self.view.step("applied " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()))

    async def _submit(self, api: Api, waiting: list[Planned], now: float) -> list[Planned]:
        due = [planned for planned in waiting if planned.at_s <= now]
        for planned in due:
            source = planned.source
            namespace = source.manifest_namespace or "default"
            await publish_job_event(api, namespace, source.manifest_name, source.plain())
        if due:
            names: dict[str, int] = {}
            for planned in due:
                stem = planned.source.manifest_name.rsplit("-", 1)[0]
                names[stem] = names.get(stem, 0) + 1
            self.view.happened("submitted " + ", ".join(f"{count} x {stem}" for stem, count in names.items()))
        return waiting[len(due) :]

    def _fold(self, entries: list) -> None:  # type: ignore[type-arg]
        before = len(self.report.preemptions)
        self.report.fold(entries)
        for row in self.report.preemptions[before:]:
            self.view.happened(f"{row.victim} preempted by {row.preemptor} ({row.rule})")

    async def _show(self, api: Api, planned: int) -> None:
        jobs = (await api.list(ListRequest(kind="Job"))).items
        queues = (await api.list(ListRequest(kind="ClusterQueue"))).items
        self.view.update(jobs, queues, planned)
        rejected = [job for job in jobs if job["status"].get("phase") == "Rejected"]
        if rejected:
            job = rejected[0]
            raise CliError(f"job {job['metadata']['name']} was rejected: {job['status'].get('message')}")

    def _tend(self) -> None:
        for child in self.supervisor.tend():
            self.view.happened(f"{child.label} ended unexpectedly; starting it again (log: {child.log})")
            if child.restarts >= PORTS_SERVICES:
                raise CliError(f"{child.label} keeps ending; see {child.log}")

    def _late(self, timeout_s: float, planned: int) -> str:
        left = self.report.unfinished
        return (
            f"after {timeout_s:.0f} s {len(self.report.jobs) - len(left)} of {planned} jobs are over; "
            f"unfinished: {', '.join(left[:8])}{' ...' if len(left) > 8 else ''}"
        )


def _summary(report: Report) -> None:
    span = (report.last_at - report.first_at) / 1e6
    echo(f"\n{plural(len(report.jobs), 'job')} in {span:.1f} s, {report.events} events in the log\n")
    echo("\n".join(report.job_table()))
    echo("\nUse of cpu by queue and flavor:\n")
    echo("\n".join(report.use_table()))
    echo(f"\n{plural(len(report.preemptions), 'preemption')}:\n")
    echo("\n".join(report.preemption_table()))


def _further(report: Report, place: Place, *, staying: bool) -> None:
    """Say how to look at what happened."""
    sluice = _command()
    found = find(Path.cwd())
    here = found is not None and found.directory == place.directory
    asking = sluice if here else f"{sluice} -s {_shown(place.directory)}"
    if staying:
        echo("\nTo look further, in another terminal:")
    else:
        echo(
            "\nTo look further, start the cell again with its log, jobs and queues (and stop it with `down`):"
        )
        echo(f"  {sluice} up --detach --dir {_shown(place.directory)}")
        asking = sluice if found is None or found.directory == place.directory else asking
    subject = report.preemptions[0].victim if report.preemptions else report.jobs[0]
    for words in (
        "get jobs",
        "describe cq vision",
        f"describe job {subject}",
        *((f"log show {report.preemptions[0].seq}",) if report.preemptions else ()),
        "log tail -n 40 --no-follow",
        "status",
    ):
        echo(f"  {asking} {words}")
    echo(f"A cell of your own: `{sluice} up --detach`, then `{sluice} apply -f {_shown(MANIFESTS)}`.")


def _command() -> str:
    """Return how to call this command from here."""
    if shutil.which("sluice"):
        return "sluice"
    return _shown(Path(sys.executable).parent / "sluice")


def _shown(path: Path) -> str:
    with contextlib.suppress(ValueError):
        return str(path.relative_to(Path.cwd()))
    return str(path)


def _require(report: Report, planned: int) -> None:
    """Check that the demo showed what it promises.

    Raises:
        CliError: says what is missing.
    """
    wrong = []
    if len(report.jobs) != planned or report.unfinished:
        wrong.append(f"{len(report.jobs) - len(report.unfinished)} of {planned} jobs ended")
    if report.failed:
        wrong.append(f"failed: {', '.join(report.failed)}")
    if not report.queued:
        wrong.append("no job had to wait")
    if not report.borrowed:
        wrong.append("nothing was borrowed")
    if not report.preemptions:
        wrong.append("nothing was preempted")
    if wrong:
        raise CliError("; ".join(wrong))


def _empty(place: Place) -> None:
    """Begin with nothing: the last demo's log and files go, the lock stays."""
    from sluice.local.server import stop_running

    if place.nats.is_dir():
        stop_running(place.nats)
    for path in (place.nats, place.logs, place.agents):
        shutil.rmtree(path, ignore_errors=True)
    place.logs.mkdir(parents=True, exist_ok=True)


def _job_environment() -> dict[str, str]:
    """Let jobs find the `python3` that runs this."""
    return {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
