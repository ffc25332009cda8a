"""`sluice console`: the cell and its past in a browser."""

import contextlib
import os
import signal
import subprocess
import webbrowser
from pathlib import Path

import click

from sluice.cli.cell.client import find_target
from sluice.cli.cell.log_options import Place, plain_errors, recorded
from sluice.cli.kit.errors import CliError
from sluice.cli.kit.settings import Settings
from sluice.cli.kit.terminal import echo
from sluice.local.cell_directory import nearest
from sluice.local.processes import CONSOLE_PORT, exists, free_port, service_command

from .supervisor import CONSOLE


@click.command()
@click.option(
    "-l",
    "--log",
    "file",
    type=Place(),
    help="An exported log (.slog, or .jsonl), or an archive, to look into; no cell and no server are needed.",
)
@click.option(
    "-p", "--port", type=click.IntRange(0, 65535), help=f"Its port (default: {CONSOLE_PORT}, or a free one)."
)
@click.option(
    "--open/--no-open", "opens", default=True, help="Open a browser (default), or print the address only."
)
@click.option(
    "--actions",
    is_flag=True,
    help="Let it act, too: stop queues, change quota, delete jobs, each shown first.",
)
@click.pass_obj
def console(settings: Settings, file: str | None, port: int | None, opens: bool, actions: bool) -> None:
    """Look at the cell, and at its past, in a browser.

    Opens the console that `sluice up` runs. For another cell, and for an exported log, one is run until
    Ctrl-C.

    \b
    Examples:
      sluice console                      of the nearest cell
      sluice console --no-open            print its address
      sluice console --actions            one that may act, with this user's key
      sluice console -l incident.slog     an exported log, without any server
      sluice console -l ARCHIVE           what was cut off a cell's log
    """
    if actions and file is not None:
        raise CliError("a log cannot be acted upon: --actions and --log exclude each other", exit_code=2)
    if file is None and port is None and not actions and (address := _running(settings)):
        _show(address, opens)
        return
    environment = {"CONSOLE_ACTIONS": "1"} if actions else {}
    arguments = ["--port", str(free_port(CONSOLE_PORT) if port is None else port)]
    if file is not None:
        with plain_errors():
            recorded(file)
        arguments += ["--log", file]
    else:
        target = find_target(settings)
        environment |= {"SLUICE_NATS_URL": target.url, "SLUICE_CELL": target.cell}
    _run(service_command(CONSOLE, *arguments), environment, opens)


def _running(settings: Settings) -> str:
    """Return the address of the console that the nearest cell runs, "" if there is none."""
    if settings.server or "SLUICE_NATS_URL" in os.environ:
        return ""
    state = nearest(Path.cwd())
    if state is None or (settings.cell and settings.cell != state.cell):
        return ""
    alive = any(process.service == CONSOLE and exists(process.pid) for process in state.processes)
    return state.console if alive else ""


def _show(address: str, opens: bool) -> None:
    echo(f"Console: {address}")
    if opens:
        webbrowser.open(address)


def _run(command: list[str], environment: dict[str, str], opens: bool) -> None:
    """Run a console until it ends or is stopped.

    Raises:
        CliError: it ended by itself.
    """
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, **environment}, text=True, process_group=0
    )

    def stop(*_: object) -> None:
        process.terminate()

    before = {which: signal.signal(which, stop) for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        assert process.stdout is not None
        for line in process.stdout:
            head, _, address = line.strip().partition(" ")
            if head == "Console:":
                _show(address, opens)
        code = process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        for which, handler in before.items():
            signal.signal(which, handler)
    if code > 0:
        raise CliError("the console has ended; what it said is above")
