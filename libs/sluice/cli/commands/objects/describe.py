"""`sluice describe`: everything about an object, for reading."""

import time
from collections.abc import Awaitable, Callable, Sequence

import click

from sluice.cli.cell.agents import add_heartbeats
from sluice.cli.cell.budgets import add_standings, standing_lines
from sluice.cli.cell.client import Api, run
from sluice.cli.cell.custom_kinds import with_registered
from sluice.cli.cell.lookup import existing
from sluice.cli.cell.name_completion import complete_targets
from sluice.cli.cell.selectors import all_namespaces_option, namespace_option, parse_targets, selector_option
from sluice.cli.commands.jobs.misspelt import means_nothing_of
from sluice.cli.kit.columns import agent_flavors, agent_kinds, agent_on_loss, dig, key, name, object_age
from sluice.cli.kit.describe_format import Lines, conditions, field, indented, mapping
from sluice.cli.kit.durations import age
from sluice.cli.kit.output import to_yaml
from sluice.cli.kit.resources import Resource
from sluice.cli.kit.terminal import echo
from sluice.protocol.query import ListRequest, Object

from .describe_jobs import job_lines, workload_lines
from .describe_queues import cluster_queue_lines, cohort_lines, flavor_lines, local_queue_lines


@click.command()
@click.argument(
    "arguments", nargs=-1, metavar="TYPE [NAME...] | TYPE/NAME...", shell_complete=complete_targets
)
@namespace_option()
@all_namespaces_option()
@selector_option()
@click.pass_context
def describe(
    ctx: click.Context, arguments: tuple[str, ...], namespace: str, all_namespaces: bool, selector: str
) -> None:
    """Show everything about objects: spec, state, conditions, what happened, and usage for queues.

    \b
    Examples:
      sluice describe job train
      sluice describe cq team-a
      sluice describe wl -l team=a
    """
    targets = with_registered(ctx, lambda: parse_targets(arguments))

    async def work(api: Api) -> None:
        blocks: list[Lines] = []
        for resource, names in targets:
            where = "" if all_namespaces or not resource.namespaced else namespace
            found = await _objects(api, resource, names, where, selector)
            blocks += [await lines_of(api, resource, obj) for obj in found]
        if not blocks:
            echo("No resources found.", err=True)
        echo("\n\n\n".join("\n".join(block) for block in blocks), nl=bool(blocks))

    run(ctx, work)


async def _objects(
    api: Api, resource: Resource, names: Sequence[str], namespace: str, selector: str
) -> list[Object]:
    if not names:
        request = ListRequest(
            kind=resource.kind,
            namespace=namespace,
            label_selector=selector,
            field_selector=resource.narrowed(),
            whole=True,
        )
        return (await api.list(request)).items
    return [await existing(api, resource, one, namespace, whole=True) for one in names]


async def lines_of(api: Api, resource: Resource, obj: Object) -> Lines:
    """Return the description of one object."""
    body = _BODIES.get(resource.kind)
    lines = _head(obj) + _warnings(obj)
    if body is not None:
        lines += await body(api, obj)
    elif dig(obj, "spec", default={}):
        lines += ["Spec:", *indented(to_yaml(obj["spec"]))]
    return lines


def _head(obj: Object) -> Lines:
    metadata = obj["metadata"]
    lines = [field("Name", metadata["name"])]
    if metadata.get("namespace"):
        lines.append(field("Namespace", metadata["namespace"]))
    lines += mapping("Labels", metadata.get("labels") or {})
    lines += mapping("Annotations", metadata.get("annotations") or {})
    lines.append(field("Kind", f"{obj.get('kind')} ({obj.get('apiVersion')})"))
    if metadata.get("creationTimestamp"):
        lines.append(field("Created", f"{metadata['creationTimestamp']} ({object_age(obj)} ago)"))
    if metadata.get("deletionTimestamp"):
        lines.append(field("Terminating", f"since {metadata['deletionTimestamp']}: in use"))
    if metadata.get("resourceVersion", "0") != "0":
        generation = f", generation {metadata['generation']}" if metadata.get("generation") else ""
        lines.append(field("Last change", f"log sequence {metadata['resourceVersion']}{generation}"))
    return lines


def _warnings(obj: Object) -> Lines:
    """Return what was accepted with it and has no effect, as was said when it was applied or submitted."""
    found = means_nothing_of(obj)
    return ["Warnings:", *(f"  {text}" for text in found)] if found else []


async def _agent(api: Api, obj: Object) -> Lines:
    await add_heartbeats(api, [obj])
    jobs = (await api.list(ListRequest(kind="Job", field_selector=f"status.executor={name(obj)}"))).items
    capacity = dig(obj, "status", "capacity", default=0)
    running = [key(job) for job in jobs if dig(job, "status", "phase") == "Running"]
    return [
        field("Status", dig(obj, "status", "phase")),
        field("Flavors", agent_flavors(obj).replace(",", ", ")),
        field("Kinds", agent_kinds(obj).replace(",", ", ")),
        field("Host", dig(obj, "status", "host")),
        field("Capacity", f"{capacity} pods" if capacity else "<any number>"),
        field("Since", _since(obj)),
        field("On loss", agent_on_loss(obj)),
        field("Message", dig(obj, "status", "message")),
        field("Running", ", ".join(running) or "<none>"),
    ]


def _since(obj: Object) -> str:
    since = dig(obj, "status", "since", default=None)
    return f"{since} ({age(since, time.time())} ago)" if since else ""


async def _check(_: Api, obj: Object) -> Lines:
    spec = dig(obj, "spec", default={})
    parameters = spec.get("parameters")
    return [
        field("Controller", spec.get("controllerName")),
        field("Parameters", f"{parameters['kind']}/{parameters['name']}" if parameters else "<none>"),
        *conditions(obj),
    ]


async def _budget(api: Api, obj: Object) -> Lines:
    await add_standings(api, [obj])
    return [*standing_lines(obj), "Spec:", *indented(to_yaml(obj["spec"]))]


_BODIES: dict[str, Callable[[Api, Object], Awaitable[Lines]]] = {
    "Job": job_lines,
    "Workload": workload_lines,
    "Slice": workload_lines,
    "Variant": workload_lines,
    "ClusterQueue": cluster_queue_lines,
    "LocalQueue": local_queue_lines,
    "Cohort": cohort_lines,
    "ResourceFlavor": flavor_lines,
    "AdmissionCheck": _check,
    "Budget": _budget,
    "Agent": _agent,
}
