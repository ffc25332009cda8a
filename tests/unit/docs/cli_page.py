"""Writes docs/cli.md from the commands themselves: `python -m tests.unit.docs.cli_page`."""

import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from sluice.cli.main import COMMANDS, cli

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cli.md"

HEAD = """\
# The `sluice` command

Written from `--help` by `python -m tests.unit.docs.cli_page`; a test keeps it current.

A cell is found by `--server`, else by `SLUICE_NATS_URL`, else by the nearest `.sluice/` directory, as git
finds its repository. `--cell` or `SLUICE_CELL` names it (`main`), `-n` or `SLUICE_NAMESPACE` the namespace
(`default`). `NO_COLOR` turns colours off.

| exit code | means |
|---|---|
| 0 | done |
| 1 | refused, or it failed; the message says why |
| 2 | the command line makes no sense |
| 3 | the time given was up |
| 4 | no server or no api service answers: nothing was tried, so a script may try again |
| 130 | Ctrl-C |

Completion of commands, options and names: `source <(sluice completion bash)`; zsh and fish likewise.
"""


def commands(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield the commands below *command*, groups before their members, each with its words."""
    if path:
        yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield from commands(found, (*path, name))


def text_of(command: click.Command) -> tuple[list[str], list[str]]:
    """Return the paragraphs of a command's help, and the lines of its examples."""
    paragraphs: list[str] = []
    examples: list[str] = []
    for block in inspect.cleandoc(command.help or "").split("\n\n"):
        lines = block.split("\n")
        if lines[0].strip() == "\b":
            examples += [
                line.strip() for line in lines[1:] if line.strip() and not line.strip().endswith(":")
            ]
        else:
            paragraphs.append(" ".join(line.strip() for line in lines))
    return paragraphs, examples


def commented(examples: Sequence[str]) -> Iterator[str]:
    """Yield example lines with what follows a wide gap as a comment, in one column."""
    split = [re.split(r" {2,}", line, maxsplit=1) for line in examples]
    width = max((len(words) for words, *rest in split if rest), default=0)
    for words, *rest in split:
        yield f"{words:<{width}}  # {rest[0]}" if rest else words


def options(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the rows of the table of options."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            record = parameter.get_help_record(context)
            if record is not None and "--help" not in record[0]:
                names, meaning = (" ".join(part.split()).replace("|", "\\|") for part in record)
                yield f"| `{names}` | {meaning} |"


def entry(path: tuple[str, ...], command: click.Command) -> Iterator[str]:
    """Yield the section of one command."""
    context = click.Context(command, info_name=" ".join(("sluice", *path)))
    yield f"{'#' * (2 + len(path))} sluice {' '.join(path)}"
    yield ""
    paragraphs, examples = text_of(command)
    yield "\n\n".join(paragraphs)
    pieces = command.collect_usage_pieces(context)
    if pieces != ["[OPTIONS]"]:
        yield ""
        yield "```"
        yield " ".join(("sluice", *path, *pieces))
        yield "```"
    rows = list(options(command, context))
    if rows:
        yield ""
        yield "| option | |"
        yield "|---|---|"
        yield from rows
    if examples:
        yield ""
        yield "```sh"
        yield from commented(examples)
        yield "```"
    yield ""


def page() -> str:
    """Return the whole page."""
    lines = [HEAD]
    section = ""
    for path, command in commands(cli, ()):
        wanted = COMMANDS[path[0]].section if path[0] in COMMANDS else "Other"
        if len(path) == 1 and wanted != section:
            section = wanted
            lines += [f"## {section}", ""]
        lines += entry(path, command)
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
