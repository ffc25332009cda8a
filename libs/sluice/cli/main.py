"""The `sluice` command: its groups and global options; each command lives in a module of its own.

Commands are imported when they are used, so that `sluice --help` and completion stay quick.
"""

import os
import signal
import sys

import click

from sluice import __version__

from .kit.errors import CliError
from .kit.lazy_group import Lazy, LazyGroup
from .kit.settings import Settings
from .kit.terminal import echo

COMMANDS = {
    "up": Lazy("cell.up", "Run a cell", "Start a server, the services and agents on this machine"),
    "down": Lazy("cell.up", "Run a cell", "Stop what `up` started"),
    "status": Lazy("cell.status", "Run a cell", "Show services, agents, the log's position"),
    "console": Lazy("cell.console", "Run a cell", "Look at the cell, or an exported log, in a browser"),
    "auth": Lazy("auth.auth", "Run a cell", "Say who may log in to a cell's server: keys, roles, TLS"),
    "demo": Lazy("demo.demo", "Run a cell", "Start a cell, feed it real jobs, show what happens"),
    "apply": Lazy("objects.apply", "Change it", "Create or change objects from manifests"),
    "delete": Lazy("objects.apply", "Change it", "Delete objects"),
    "submit": Lazy("jobs.submit", "Change it", "Submit jobs"),
    "job": Lazy("jobs.job", "Change it", "Scale, finish or delete a job"),
    "agent": Lazy("cell.agent", "Change it", "Say that an agent is lost, so that its jobs run elsewhere"),
    "get": Lazy("objects.get", "Look at it", "List objects"),
    "describe": Lazy("objects.describe", "Look at it", "Show everything about an object"),
    "events": Lazy("objects.events", "Look at it", "Show what happened to an object"),
    "logs": Lazy("jobs.logs", "Look at it", "Print what a job's processes printed"),
    "wait": Lazy("jobs.wait", "Look at it", "Wait until a job has come to a state"),
    "log": Lazy("log.files", "Look at it", "Read, export, import and check the event log"),
    "check": Lazy("checks.check", "Look at it", "Look at admission checks, answer them, begin to write one"),
    "cells": Lazy("cells.cells", "Look at it", "Look at cells in which jobs are placed, drain one"),
    "why": Lazy("replay.why", "Ask the log", "Explain why a workload is pending, now or then"),
    "who-preempted": Lazy("replay.why", "Ask the log", "Say who preempted a workload, and by which rule"),
    "trace": Lazy("replay.why", "Ask the log", "Follow an event to its causes and consequences"),
    "simulate": Lazy("replay.why", "Ask the log", "Say what would become of a job, without submitting it"),
    "replay": Lazy("replay.replay", "Ask the log", "State at any point, verify, what-if, bisect, timeline"),
    "api-resources": Lazy("objects.get", "Look at it", "List the kinds of objects and their short names"),
    "completion": Lazy("completion", "Other", "Print the shell's completion script"),
    "version": Lazy("version", "Other", "Print the version"),
}


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="A cell is found by --server, else by SLUICE_NATS_URL, else by the nearest .sluice/ directory.",
)
@click.option("-s", "--server", metavar="URL", help="NATS server, nats://host:port, or a cell's directory.")
@click.option("--cell", metavar="NAME", envvar="SLUICE_CELL", help="Cell to work with (default: main).")
@click.option("--color/--no-color", "color", default=None, help="Colours; by default on a terminal only.")
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, server: str | None, cell: str | None, color: bool | None) -> None:
    """Sluice decides which batch jobs may run, where, and when.

    Queues, cohorts and flavors are Kueue's; every decision is an event in a log that can be read.

    \b
    A first tour:
      sluice up --detach                  start a cell in ./.sluice
      sluice apply -f examples/demo/      queues and flavors
      sluice submit -f job.yaml --wait    a job; comes back when it has ended
      sluice get jobs                     what runs, what waits, and where in the queue
      sluice describe job NAME            why
      sluice log tail                     everything that is decided, as it happens
      sluice down
    """
    ctx.obj = Settings(server=server, cell=cell)
    if color is None and os.environ.get("NO_COLOR"):
        color = False
    ctx.color = color


def main(argv: list[str] | None = None) -> None:
    """Run the command line; the console script's entry point.

    A reader that goes away (`sluice log tail | head`) ends the command quietly, Ctrl-C with 130.
    """
    try:
        cli.main(args=argv, prog_name="sluice", standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except CliError as error:
        error.show()
        sys.exit(error.code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        echo("", err=True)
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        # The interpreter would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)


if __name__ == "__main__":
    main()
