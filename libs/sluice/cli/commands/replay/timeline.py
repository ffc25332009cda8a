"""`sluice replay timeline`: all that happened to a job or queue, in order."""

from pathlib import Path

import click

from sluice.cli.cell.log_options import (
    about_a_log,
    progress,
    show_json,
    write_picture,
)
from sluice.cli.kit import timeline_html, timeline_svg
from sluice.cli.kit.terminal import echo
from sluice.core.scheduler.decider import Scheduler
from sluice.core.world.model import World
from sluice.replay.explain.why import find
from sluice.replay.history import causes
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import configured_at, scheduler_at

from .why import happening_line


@click.command()
@click.argument("name")
@about_a_log
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@click.option("--svg", type=click.Path(path_type=Path, dir_okay=False), help="Draw it into this file.")
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write it as a page that opens without a server: the lanes that the console shows.",
)
def timeline(source: Source, name: str, output: str, svg: Path | None, html: Path | None) -> None:
    """Show all that happened to a job, workload, cluster queue or cohort, in order."""
    with progress(source, "Configuring") as show:
        world = configured_at(source, Scheduler(), source.end, show).world
    queues = _queues(world, name)
    with progress(source, "Reading") as show:
        if queues:
            found = causes.history_of_queues(source, _locals(world, queues), queues, show)
        else:
            found = causes.history(source, [name if "/" in name else f"default/{name}"], show)
        if not found:
            find(scheduler_at(source, source.end, progress=show).state, name)
    if svg is not None:
        write_picture(svg, timeline_svg.timeline(found, name, _flavors(world)))
    if html is not None:
        write_picture(html, timeline_html.page(found, name))
    if output == "json":
        show_json([vars(h) for h in found])
    else:
        echo("\n".join(happening_line(h) for h in found))


def _flavors(world: World) -> list[str]:
    """Return the flavors in the order in which queues prefer them."""
    groups = (group for q in world.cluster_queues.values() for group in q.spec.resource_groups)
    return list(dict.fromkeys(flavor.name for group in groups for flavor in group.flavors))


def _queues(world: World, name: str) -> list[str]:
    """Return the cluster queues that *name* means: itself, or those of a cohort; [] for anything else."""
    inside = [
        n for n, q in world.cluster_queues.items() if name in (node.name for node in q.node.path_to_root())
    ]
    return inside or ([name] if name in world.cluster_queues else [])


def _locals(world: World, queues: list[str]) -> list[str]:
    return [key for key, local in world.local_queues.items() if local.cluster_queue in queues]
