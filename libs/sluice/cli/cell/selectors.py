"""Arguments as kubectl takes them: `TYPE NAME...`, `TYPE/NAME...`, `TYPE,TYPE`; and shared options."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from sluice.cli.kit.errors import CliError
from sluice.cli.kit.options import Decorator
from sluice.cli.kit.resources import RESOURCES, Resource, resource_named

from .name_completion import complete_namespaces

ALL = "all"
_ALL_KINDS = ("LocalQueue", "ClusterQueue", "Job", "Workload")


def parse_targets(arguments: Sequence[str]) -> list[tuple[Resource, list[str]]]:
    """Return (resource, names) for kubectl-like arguments; no names mean all of them.

    Raises:
        CliError: no such type, or both forms mixed.
    """
    if not arguments:
        raise CliError("say what to get, e.g. `sluice get jobs`", hint=_types_hint(), exit_code=2)
    if any("/" in argument for argument in arguments):
        out: dict[str, tuple[Resource, list[str]]] = {}
        for argument in arguments:
            word, slash, name = argument.partition("/")
            if not slash or not name:
                raise CliError(
                    f"{argument!r}: when one argument is TYPE/NAME, all must be",
                    hint="For example: `sluice get job/train cq/team-a`.",
                    exit_code=2,
                )
            resource = resource_named(word)
            out.setdefault(resource.plural, (resource, []))[1].append(name)
        return list(out.values())
    words, names = arguments[0], list(arguments[1:])
    if words == ALL:
        resources = [resource for resource in RESOURCES if resource.kind in _ALL_KINDS]
    else:
        resources = [resource_named(word) for word in words.split(",") if word]
    if names and len(resources) > 1:
        raise CliError("names need one type", hint="For example: `sluice get jobs train eval`.", exit_code=2)
    return [(resource, names) for resource in resources]


def _types_hint() -> str:
    return "Types: " + ", ".join(resource.plural for resource in RESOURCES)


def own_namespace() -> str:
    """Return the first namespace of the user whose key is used, as `sluice auth` wrote it beside the key."""
    try:
        text = Path(os.environ["SLUICE_CREDENTIALS"]).with_name("namespace").read_text()
    except (KeyError, OSError, ValueError):
        return "default"
    return text.strip() or "default"


def namespace_option() -> Decorator:
    """`-n`, with SLUICE_NAMESPACE behind it, and behind that the first one of the user."""
    return click.option(
        "-n",
        "--namespace",
        default=own_namespace,
        envvar="SLUICE_NAMESPACE",
        metavar="NS",
        shell_complete=complete_namespaces,
        help="Namespace (default: SLUICE_NAMESPACE, the first of the user's key, or default).",
    )


def all_namespaces_option() -> Decorator:
    """`-A`."""
    return click.option("-A", "--all-namespaces", is_flag=True, help="Objects of all namespaces.")


def selector_option() -> Decorator:
    """`-l`."""
    return click.option(
        "-l", "--selector", default="", metavar="LABELS", help="Labels, e.g. team=a,tier!=low."
    )
