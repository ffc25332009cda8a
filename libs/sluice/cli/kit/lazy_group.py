"""Groups of commands whose modules are imported when they are used: help and completion stay quick."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

from sluice.replay.source.suggest import did_you_mean


class Lazy(NamedTuple):
    """Where a command is, and how its group lists it."""

    module: str
    """Of `sluice.cli.commands`; the command is called as on the command line, with underscores."""
    section: str
    text: str


class LazyGroup(click.Group):
    """Imports a command's module when the command is asked for; lists commands by section."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        extra = [name for name in super().list_commands(ctx) if name not in self.lazy]
        return [*self.lazy, *extra]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        module = import_module(f"sluice.cli.commands.{self.lazy[cmd_name].module}")
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
        for name, command in self.lazy.items():
            sections.setdefault(command.section, []).append((name, command.text))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)
