"""Kinds that teams have registered: known to the command when somebody names one."""

from collections.abc import Callable

import click

from sluice.cli.kit.columns import dig
from sluice.cli.kit.resources import PLAIN_COLUMNS, Resource, UnknownResourceError, register
from sluice.core.config.objects import DEFINITION
from sluice.protocol.query import ListRequest

from .client import Api, run


def with_registered[T](ctx: click.Context, parse: Callable[[], T]) -> T:
    """Return what *parse* makes of words; asks the cell for its own kinds when there is an unknown one."""
    try:
        return parse()
    except UnknownResourceError:
        run(ctx, _register)
        return parse()


def registered_kinds(ctx: click.Context) -> list[Resource]:
    """Return the kinds that teams have registered, by name.

    Raises:
        CliError: no cell answers.
    """
    return run(ctx, _registered)


async def _register(api: Api) -> None:
    for resource in await _registered(api):
        register(resource)


async def _registered(api: Api) -> list[Resource]:
    found = []
    for definition in (await api.list(ListRequest(kind=DEFINITION, whole=True))).items:
        names = dig(definition, "spec", "names", default={})
        versions = [
            v["name"] for v in dig(definition, "spec", "versions", default=()) if v.get("served", True)
        ]
        found.append(
            Resource(
                str(names.get("kind", "")),
                str(names.get("plural", "")),
                group=f"{dig(definition, 'spec', 'group', default='')}/{versions[0] if versions else ''}",
                short=tuple(map(str, names.get("shortNames", ()))),
                columns=PLAIN_COLUMNS,
            )
        )
    return sorted(found, key=lambda resource: resource.plural)
