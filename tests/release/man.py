"""Man pages of the command line, one for each command."""

import inspect
from collections.abc import Iterator

import click
from click_man.man import ManPage

from sluice import __version__
from sluice.cli.main import cli


def pages(date: str) -> dict[str, str]:
    """Return file -> page of all commands that are shown. *date*, as 2026-11-27, stands at their foot."""
    return {f"{'-'.join(context.command_path.split())}.1": _page(context, date) for context in _contexts(cli)}


def _contexts(command: click.Command, parent: click.Context | None = None) -> Iterator[click.Context]:
    # click-man's own walk finds no commands that a group imports when they are asked for.
    context = command.context_class(
        command, parent, info_name=command.name if parent else "sluice", **command.context_settings
    )
    yield context
    for _, found in _below(context):
        yield from _contexts(found, context)


def _below(context: click.Context) -> Iterator[tuple[str, click.Command]]:
    command = context.command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield name, found


def _page(context: click.Context, date: str) -> str:
    command = context.command
    page = ManPage(context.command_path)
    page.version, page.date = __version__, date
    page.short_help = _escaped(command.get_short_help_str(200))
    page.synopsis = " ".join(command.collect_usage_pieces(context)).replace("\\", "\\e")
    page.description = "\n.PP\n".join(_blocks(inspect.cleandoc(command.help or "")))
    records = (
        one.get_help_record(context) for one in command.get_params(context) if isinstance(one, click.Option)
    )
    page.options = [(_escaped(names), _escaped(text)) for names, text in filter(None, records)]
    page.commands = [(name, _escaped(found.get_short_help_str(200))) for name, found in _below(context)]
    return str(page)


def _blocks(text: str) -> Iterator[str]:
    """Yield paragraphs; those that click leaves as they are stay so here."""
    for block in text.split("\n\n"):
        if block.startswith("\b\n"):
            yield f".nf\n{_escaped(block[2:])}\n.fi"
        else:
            yield _escaped(block)


def _escaped(text: str) -> str:
    """Return *text* so that roff takes no part of it for a request."""
    lines = text.replace("\\", "\\e").split("\n")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in lines)
