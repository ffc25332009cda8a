"""Completes words in the shell: kinds, and the names that the cell knows.

A key press must not wait, nor print: without a cell that answers at once there is nothing to suggest.
"""

import asyncio
from collections.abc import Callable, Sequence

import click

from sluice.cli.kit.columns import name
from sluice.cli.kit.resources import BY_KIND, NAMES, Resource
from sluice.cli.kit.settings import Settings
from sluice.protocol.query import ListRequest

from .client import Api, connect, find_target

PATIENCE_S = 1.0
MOST = 200

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def complete_targets(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete `TYPE NAME...`, `TYPE/NAME...` and `TYPE,TYPE`."""
    words: Sequence[str] = ctx.params.get(parameter.name or "") or ()
    if "/" in incomplete:
        word, _, start = incomplete.partition("/")
        return [f"{word}/{found}" for found in _names(ctx, NAMES.get(word.lower()), start)]
    if not words:
        before, comma, start = incomplete.rpartition(",")
        return [f"{before}{comma}{found}" for found in sorted(NAMES) if found.startswith(start)]
    if "/" in words[0]:
        return []
    taken = set(words[1:])
    return [found for found in _names(ctx, NAMES.get(words[0].lower()), incomplete) if found not in taken]


def complete_kind(kind: str) -> Complete:
    """Return what completes the names of one kind."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        return _names(ctx, BY_KIND[kind], incomplete)

    return complete


complete_agents = complete_kind("Agent")
complete_cells = complete_kind("MultiKueueCluster")
complete_checks = complete_kind("AdmissionCheck")
complete_jobs = complete_kind("Job")
complete_namespaces = complete_kind("Namespace")
complete_queues = complete_kind("LocalQueue")
complete_priority_classes = complete_kind("WorkloadPriorityClass")
complete_workloads = complete_kind("Workload")


def _names(ctx: click.Context, resource: Resource | None, start: str) -> list[str]:
    """Return the names of a kind's objects that begin so, in order; empty when the cell cannot be asked."""
    if resource is None:
        return []
    settings = ctx.find_root().params
    target = Settings(server=settings.get("server"), cell=settings.get("cell"))
    namespace = str(ctx.params.get("namespace") or "default") if resource.namespaced else ""

    async def ask(api: Api) -> list[str]:
        # Lists are in order of names: a page that goes on just before the wanted ones has them first.
        before = f"{namespace}/{start}" if namespace else start
        after = before[:-1] + chr(ord(before[-1]) - 1) + chr(0x10FFFF) if start else ""
        request = ListRequest(kind=resource.kind, namespace=namespace, continue_=after, limit=MOST)
        return [word for obj in (await api.list_page(request)).items if (word := name(obj)).startswith(start)]

    async def session() -> list[str]:
        async with asyncio.timeout(PATIENCE_S), connect(find_target(target)) as api:
            return await ask(api)

    try:
        return asyncio.run(session())
    except (click.ClickException, TimeoutError, OSError):
        return []
