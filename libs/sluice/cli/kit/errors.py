"""Errors that people see: one line saying what is wrong, one saying what to do; no traces."""

import sys
from collections.abc import Sequence
from typing import IO, Any

import click

from sluice.protocol.query import Status

from .terminal import echo, style

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_TIMEOUT = 3
EXIT_UNAVAILABLE = 4
"""No server or no api service answers: nothing was tried, so a script may try again."""


class CliError(click.ClickException):
    """A refusal or failure with a hint; `code`, the process's exit code, says which kind."""

    def __init__(self, message: str, *, hint: str = "", exit_code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.hint, self.code = hint, exit_code

    def show(self, file: IO[Any] | None = None) -> None:
        out = file or sys.stderr
        echo(f"{style('error:', fg='red', bold=True)} {self.message}", file=out)
        if self.hint:
            echo(f"       {self.hint}", file=out)


def no_server(where: str, cause: str) -> CliError:
    """Return the error for a server that does not answer at *where*."""
    return CliError(
        f"no Sluice server at {where}: {cause}",
        hint="Start one here with `sluice up --detach`, or name one with --server or SLUICE_NATS_URL.",
        exit_code=EXIT_UNAVAILABLE,
    )


def no_api(where: str, cell: str) -> CliError:
    """Return the error for a server whose api service does not answer."""
    return CliError(
        f"the NATS server at {where} answers, but no api service of cell {cell!r} does",
        hint="See `sluice status`; start the services with `sluice up`, or name the cell with --cell.",
        exit_code=EXIT_UNAVAILABLE,
    )


def refused(status: Status) -> CliError:
    """Return the error for a refusal by the api service."""
    return CliError(f"{describe_status(status)}")


def describe_status(status: Status) -> str:
    """Return a Status as kubectl words it: `Error from server (NotFound): ...`, with one line per field."""
    if status.reason == "Invalid" and status.details.causes:
        head = f'The {status.details.kind} "{status.details.name}" is invalid:'
        return "\n".join([head, *(f"* {cause.field}: {cause.message}" for cause in status.details.causes)])
    return f"Error from server ({status.reason}): {status.message}"


def plural(count: int, noun: str, nouns: str = "") -> str:
    """Return `1 job`, `3 jobs`."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"


def joined(words: Sequence[str]) -> str:
    """Return `a, b and c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
