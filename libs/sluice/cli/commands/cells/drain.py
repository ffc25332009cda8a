"""`sluice cells drain` and `resume`: whether a cell gets jobs."""

from typing import Any

import click

from sluice.api.labels import DRAIN, MOVE, STAY
from sluice.cli.cell.client import Api, run
from sluice.cli.cell.lookup import existing
from sluice.cli.cell.name_completion import complete_cells
from sluice.cli.kit.errors import CliError, describe_status, plural
from sluice.cli.kit.resources import BY_KIND
from sluice.cli.kit.terminal import echo
from sluice.protocol.query import ApplyRequest

_NAMES = click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_cells)


@click.command()
@_NAMES
@click.option("--move", is_flag=True, help="Also evict the jobs that it has: they are placed elsewhere.")
@click.pass_context
def drain(ctx: click.Context, names: tuple[str, ...], *, move: bool) -> None:
    """Give a cell no more jobs, until `sluice cells resume`.

    What runs there stays, and may still grow. What only waits there is taken back, and asked for in other
    cells. With --move jobs that run there are evicted, stop, and begin anew elsewhere; where no other cell
    has room they wait.

    It is the annotation kueue.x-k8s.io/drain (stay or move) of the MultiKueueCluster, so a manifest that is
    applied later without it resumes the cell.

    \b
    Examples:
      sluice cells drain near && sluice cells describe near     what is left there
      sluice cells drain near --move
    """
    _annotate(ctx, names, MOVE if move else STAY, "drained")


@click.command()
@_NAMES
@click.pass_context
def resume(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Let a cell get jobs again."""
    _annotate(ctx, names, "", "resumed")


def _annotate(ctx: click.Context, names: tuple[str, ...], how: str, done: str) -> None:
    async def work(api: Api) -> None:
        found = [await existing(api, BY_KIND["MultiKueueCluster"], name, "", whole=True) for name in names]
        changed = [_changed(obj, how) for obj in found]
        answer = await api.apply(ApplyRequest(objects=changed))
        refused = [result for result in answer.results if result.status is not None]
        for result in answer.results:
            if result.status is None:
                echo(f"cell {result.name} {done if result.outcome != 'unchanged' else 'unchanged'}")
            else:
                echo(describe_status(result.status), err=True)
        if refused:
            raise CliError(f"{plural(len(refused), 'cell')} refused")

    run(ctx, work)


def _changed(obj: dict[str, Any], how: str) -> dict[str, Any]:
    """Return a MultiKueueCluster as it is to be applied."""
    metadata = obj["metadata"]
    notes = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != DRAIN}
    if how:
        notes[DRAIN] = how
    kept = {key: metadata[key] for key in ("name", "labels") if metadata.get(key)}
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "metadata": {**kept, "annotations": notes},
        "spec": obj["spec"],
    }
