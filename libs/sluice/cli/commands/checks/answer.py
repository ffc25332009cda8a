"""`sluice check approve|reject|retry`: people answer for the controller of a check."""

from collections.abc import Sequence

import click

from sluice.cli.cell.await_reply import aside, settle
from sluice.cli.cell.client import Api, run
from sluice.cli.cell.lookup import not_found
from sluice.cli.cell.name_completion import complete_checks, complete_workloads
from sluice.cli.cell.publish import publish
from sluice.cli.cell.selectors import namespace_option
from sluice.cli.kit import durations
from sluice.cli.kit.errors import CliError
from sluice.cli.kit.resources import BY_KIND, resource_named
from sluice.cli.kit.terminal import echo
from sluice.events.base import WorkloadKey
from sluice.protocol.checks import CheckVerdict
from sluice.protocol.query import Object
from sluice.protocol.subjects import verdict_suffix

from .choice import asking, known_of, live_workloads, variants_of

_workload = click.argument("workload", metavar="[TYPE/]WORKLOAD", shell_complete=complete_workloads)
_check = click.argument("name", metavar="CHECK", shell_complete=complete_checks)
_message = click.option("-m", "--message", default="", help="Why, for people.")


@click.command()
@_workload
@_check
@namespace_option()
@_message
@click.pass_context
def approve(ctx: click.Context, workload: str, name: str, namespace: str, message: str) -> None:
    """Say that a check is Ready for a workload, or for the one of a job that asks.

    \b
    Examples:
      sluice check approve job-train-3f9c1 budget
      sluice check approve train budget -m "agreed with finance"
      sluice check approve job/train budget
    """
    _answer(ctx, namespace, workload, name, "Ready", message)


@click.command()
@_workload
@_check
@namespace_option()
@_message
@click.pass_context
def reject(ctx: click.Context, workload: str, name: str, namespace: str, message: str) -> None:
    """Say that a check will never pass: the workload is deactivated, stopped if it runs.

    Of a job, it is said of the workload that asks: its growth, or the variant that waits for this check.
    What runs is hit when you name it, or when the job has no other.
    """
    _answer(ctx, namespace, workload, name, "Rejected", message)


@click.command()
@_workload
@_check
@namespace_option()
@_message
@click.option("--after", metavar="DURATION", help="Not before so long, as 90s or 1h; else a backoff.")
@click.pass_context
def retry(
    ctx: click.Context, workload: str, name: str, namespace: str, message: str, after: str | None
) -> None:
    """Send a workload back to its queue, stopped if it runs; its checks begin anew with its next attempt."""
    delay: int | None = None
    if after is not None:
        try:
            delay = round(durations.parse(after))
        except ValueError as error:
            raise CliError(str(error), exit_code=2) from None
    _answer(ctx, namespace, workload, name, "Retry", message, delay)


def _answer(
    ctx: click.Context,
    namespace: str,
    named: str,
    name: str,
    state: str,
    message: str,
    delay: int | None = None,
) -> None:
    kinds, own = kinds_and_name(named)

    async def work(api: Api) -> None:
        workload = await asked_of(api, kinds, own, name, namespace)
        found = known_of(workload, name)
        key = WorkloadKey(f"{namespace}/{workload['metadata']['name']}")
        verdict = CheckVerdict(
            workload=key,
            uid=workload["metadata"]["uid"],
            check=name,
            attempt=int(found.get("attempt", 0)),
            state=state,  # type: ignore[arg-type]
            message=message or "Answered with sluice check",
            requeue_after_seconds=delay,
        )
        controller = str(found.get("controller", ""))
        seq = await publish(api, verdict_suffix(controller), "CheckVerdict", key, verdict)
        remark = await settle(
            api, seq, f"check/{name} of {key} stays as it is (event {seq})", writer="checks"
        )
        echo(f"check/{name} of {key}: {state} for attempt {verdict.attempt}, event {seq}{aside(remark)}")

    run(ctx, work)


def kinds_and_name(named: str) -> tuple[Sequence[str], str]:
    """Return of which kinds the object may be that is meant by NAME or TYPE/NAME, and its name.

    Raises:
        CliError: TYPE is no type, or one that no check is asked for.
    """
    word, slash, name = named.partition("/")
    if not slash:
        return ("Workload", "Job"), named
    kind = resource_named(word).kind
    if kind not in ("Workload", "Job") or not name:
        hint = "For example: `sluice check approve wl/job-train-3f9c1 budget`."
        raise CliError(f"{named!r}: checks are asked for workloads and jobs", hint=hint, exit_code=2)
    return (kind,), name


async def asked_of(api: Api, kinds: Sequence[str], named: str, name: str, namespace: str) -> Object:
    """Return the workload of this name, or of the job of this name the one that check *name* is asked for."""
    workload = await api.get("Workload", named, namespace) if "Workload" in kinds else None
    if workload is not None:
        found = [workload]
    else:
        job = await api.get("Job", named, namespace) if "Job" in kinds else None
        found = await _of_names(api, live_workloads(job) if job is not None else [], namespace)
    if not found:
        raise await not_found(api, BY_KIND[kinds[0]], named, namespace)
    # A parent is admitted as one of its variants, which have the checks.
    concerned: list[Object] = []
    for each in found:
        concerned += await _of_names(api, variants_of(each), namespace) or [each]
    return asking(named, name, concerned)


async def _of_names(api: Api, names: Sequence[str], namespace: str) -> list[Object]:
    return [found for each in names if (found := await api.get("Workload", each, namespace)) is not None]
