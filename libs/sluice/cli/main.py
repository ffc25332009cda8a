"""The `sluice` command: its groups and global options; each command lives in a module of its own.

Commands are imported when they are used, so that `sluice --help` and completion stay quick.
"""

import os
import signal
import sys
from importlib import import_module

import click

from .errors import CliError
from .settings import Settings
from .suggest import did_you_mean

_COMMANDS: dict[str, tuple[str, str, str]] = {
    # name: (module, section, one line)
    "up": ("up", "Run a cell", "Start a server, the services and agents on this machine"),
    "down": ("up", "Run a cell", "Stop what `up` started"),
    "status": ("status", "Run a cell", "Show services, agents, the log's position"),
    "demo": ("demo", "Run a cell", "Start a cell, feed it real jobs, show what happens"),
    "apply": ("apply", "Change it", "Create or change objects from manifests"),
    "delete": ("apply", "Change it", "Delete objects"),
    "submit": ("submit", "Change it", "Submit jobs"),
    "job": ("job", "Change it", "Scale, finish or delete a job"),
    "get": ("get", "Look at it", "List objects"),
    "describe": ("describe", "Look at it", "Show everything about an object"),
    "events": ("history", "Look at it", "Show what happened to an object"),
    "logs": ("logs", "Look at it", "Print what a job's processes printed"),
    "wait": ("wait", "Look at it", "Wait until a job has come to a state"),
    "log": ("log_files", "Look at it", "Read, export, import and check the event log"),
    "check": ("check", "Look at it", "Look at admission checks, answer them, begin to write one"),
    "why": ("why", "Ask the log", "Explain why a workload is pending, now or then"),
    "who-preempted": ("why", "Ask the log", "Say who preempted a workload, and by which rule"),
    "trace": ("why", "Ask the log", "Follow an event to its causes and consequences"),
    "simulate": ("why", "Ask the log", "Say what would become of a job, without submitting it"),
    "replay": ("replay", "Ask the log", "State at any point, verify, what-if, bisect, timeline"),
    "api-resources": ("get", "Look at it", "List the kinds of objects and their short names"),
    "completion": ("completion", "Other", "Print the shell's completion script"),
    "version": ("version", "Other", "Print the version"),
}


class LazyGroup(click.Group):
    """Imports a command's module when the command is asked for; lists commands by section."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        extra = [name for name in super().list_commands(ctx) if name not in _COMMANDS]
        return [*_COMMANDS, *extra]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        module = import_module(f"sluice.cli.{_COMMANDS[cmd_name][0]}")
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = click.utils.make_str(args[0])
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            ctx.fail(f"No such command {name!r}.{did_you_mean(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, (_, section, text) in _COMMANDS.items():
            sections.setdefault(section, []).append((name, text))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="A cell is found by --server, else by SLUICE_NATS_URL, else by the nearest .sluice/ directory.",
)
@click.option("-s", "--server", metavar="URL", help="NATS server of the cell, nats://host:port.")
@click.option("--cell", metavar="NAME", envvar="SLUICE_CELL", help="Cell to work with (default: main).")
@click.option("--color/--no-color", "color", default=None, help="Colours; by default on a terminal only.")
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
        click.echo("", err=True)
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        # The interpreter would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)


if __name__ == "__main__":
    main()
