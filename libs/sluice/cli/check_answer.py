"""`sluice check approve|reject|retry`: people answer for the controller of a check."""

import click

from sluice.events.base import WorkloadKey
from sluice.events.check_protocol import CheckVerdict
from sluice.events.query import Object
from sluice.log.subjects import verdict_suffix

from . import durations
from .answer import aside, settle
from .client import Api, run
from .columns import dig
from .complete import complete_checks, complete_workloads
from .errors import CliError
from .get import not_found
from .publish import publish
from .resources import BY_KIND
from .selectors import namespace_option

_workload = click.argument("workload", shell_complete=complete_workloads)
_check = click.argument("name", metavar="CHECK", shell_complete=complete_checks)
_message = click.option("-m", "--message", default="", help="Why, for people.")


@click.command()
@_workload
@_check
@namespace_option()
@_message
@click.pass_context
def approve(ctx: click.Context, workload: str, name: str, namespace: str, message: str) -> None:
    """Say that a check is Ready for a workload (or for a job's workload).

    \b
    Examples:
      sluice check approve job-train-3f9c1 budget
      sluice check approve train budget -m "agreed with finance"
    """
    _answer(ctx, namespace, workload, name, "Ready", message)


@click.command()
@_workload
@_check
@namespace_option()
@_message
@click.pass_context
def reject(ctx: click.Context, workload: str, name: str, namespace: str, message: str) -> None:
    """Say that a check will never pass: the workload is deactivated, stopped if it runs."""
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
    async def work(api: Api) -> None:
        workload = await _find(api, named, namespace)
        found = _state_of(workload, name)
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
        click.echo(
            f"check/{name} of {key}: {state} for attempt {verdict.attempt}, event {seq}{aside(remark)}"
        )

    run(ctx, work)


async def _find(api: Api, named: str, namespace: str) -> Object:
    """Return the workload of this name, or the workload of the job of this name."""
    workload = await api.get("Workload", named, namespace)
    if workload is not None:
        return workload
    job = await api.get("Job", named, namespace)
    of_job = dig(job, "status", "workload", default="") if job is not None else ""
    workload = await api.get("Workload", of_job, namespace) if of_job else None
    if workload is None:
        raise await not_found(api, BY_KIND["Workload"], named, namespace)
    return workload


def _state_of(workload: Object, name: str) -> Object:
    """Return what is known of the check of a workload that waits for it, or was admitted with it.

    Raises:
        CliError: the check does not concern the workload, or nobody may answer now.
    """
    title = workload["metadata"]["name"]
    checks = {each["name"]: each for each in dig(workload, "status", "admissionChecks", default=())}
    variants = [each["name"] for each in dig(workload, "status", "variants", default=())]
    if name not in checks:
        hint = f"It has {', '.join(sorted(checks)) or 'no checks'}."
        if variants:
            hint = f"Its variants have checks of their own: {', '.join(variants)}."
        raise CliError(f"check {name!r} does not concern {title}", hint=hint)
    if dig(workload, "status", "admission", default=None) is None:
        raise CliError(f"{title} has no quota, so its checks are not being performed")
    found: Object = checks[name]
    if not found.get("attempt") or not found.get("controller"):
        raise CliError(f"check {name!r} of {title} has not been asked for yet")
    return found
