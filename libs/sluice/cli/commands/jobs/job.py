"""`sluice job`: what an upstream system says about one job."""

from collections.abc import Sequence

import click

from sluice.cli.cell.await_reply import (
    DUPLICATE,
    answers,
    aside,
    changes_nothing,
    settle,
    why_stopping,
)
from sluice.cli.cell.client import Api, run
from sluice.cli.cell.lookup import existing, not_found
from sluice.cli.cell.name_completion import complete_jobs
from sluice.cli.cell.publish import publish_job_event
from sluice.cli.cell.selectors import namespace_option
from sluice.cli.kit.columns import dig
from sluice.cli.kit.errors import EXIT_FAILED, CliError
from sluice.cli.kit.resources import BY_KIND
from sluice.cli.kit.terminal import echo
from sluice.events.job import JobActivated, JobDeactivated, JobDeleted, JobFinished, JobScaled
from sluice.protocol.query import Reference


@click.group()
def job() -> None:
    """Scale, deactivate, activate, finish or delete a job.

    These publish the events that an upstream system would: JobScaled, JobDeactivated, JobActivated,
    JobFinished, JobDeleted.
    """


@job.command()
@click.argument("name", shell_complete=complete_jobs)
@click.argument("counts", nargs=-1, required=True, metavar="COUNT | PODSET=COUNT...")
@namespace_option()
@click.pass_context
def scale(ctx: click.Context, name: str, counts: tuple[str, ...], namespace: str) -> None:
    """Change how many pods a job has.

    \b
    Examples:
      sluice job scale train 8
      sluice job scale train workers=4 ps=1
    """
    wanted = _counts(counts)

    async def work(api: Api) -> None:
        found = await existing(api, BY_KIND["Job"], name, namespace)
        names = [pod_set["name"] for pod_set in dig(found, "status", "podSets", default=())] or ["main"]
        pod_sets = {(pod_set if pod_set else names[0]): count for pod_set, count in wanted.items()}
        if unknown := [pod_set for pod_set in pod_sets if pod_set not in names]:
            raise CliError(f"{name} has no pod set {unknown[0]!r}; it has {', '.join(names)}", exit_code=2)
        seq = await publish_job_event(api, namespace, name, JobScaled(pod_sets=pod_sets))
        answer = (await answers(api, [seq]))[seq]
        if answer.refused:
            raise CliError(f"job/{name} was not scaled (event {seq}): {answer.refused}")
        if answer.late and (why := await why_stopping(api, name, namespace)) is not None:
            _scaled_later(name, namespace, f"{_shown(pod_sets)}), event {seq}", why)
            return
        done = f"{_shown(pod_sets)}), event {seq}{aside(answer.remark)}"
        if await _deactivated(api, name, namespace, seq):
            echo(f"job/{name} is deactivated, and has another size ({done}")
            echo(f"It will not run until `sluice job activate {name}{_elsewhere(namespace)}`.")
        else:
            echo(f"job/{name} scaled ({done}")

    run(ctx, work)


def _scaled_later(name: str, namespace: str, size: str, why: str) -> None:
    """Say what becomes of the size of a job that is stopping."""
    if why == JobDeleted.__name__:
        raise CliError(f"job/{name} is being deleted: nothing is left to scale when it has stopped ({size}")
    echo(f"job/{name} is stopping ({why}), and is scaled when it has stopped ({size}")
    echo(
        f"The log keeps the change until then: `sluice get job {name}{_elsewhere(namespace)} -w` shows when."
    )


async def _deactivated(api: Api, name: str, namespace: str, seq: int) -> bool:
    """Tell whether the job kept out of its queue at *seq*; one that runs may have growth that is inactive."""
    job = await api.get("Job", name, namespace, seq)
    workload = str(dig(job, "status", "workload", default="")) if job is not None else ""
    found = await api.get("Workload", workload, namespace, seq) if workload else None
    return found is not None and dig(found, "spec", "active", default=True) is False


def _elsewhere(namespace: str) -> str:
    """Return the option that names a namespace which is not the default one."""
    return "" if namespace == "default" else f" -n {namespace}"


def _counts(counts: Sequence[str]) -> dict[str, int]:
    wanted: dict[str, int] = {}
    for text in counts:
        pod_set, equals, number = text.rpartition("=")
        if not number.isdigit() or (equals and not pod_set) or (not equals and len(counts) > 1):
            raise CliError(f"{text!r}: want a count, or PODSET=COUNT", exit_code=2)
        wanted[pod_set] = int(number)
    return wanted


def _shown(pod_sets: dict[str, int]) -> str:
    return ", ".join(f"{name}={count}" for name, count in pod_sets.items())


@job.command()
@click.argument("names", nargs=-1, required=True, shell_complete=complete_jobs)
@namespace_option()
@click.option("-m", "--message", default="", help="Why, for people.")
@click.pass_context
def deactivate(ctx: click.Context, names: tuple[str, ...], namespace: str, message: str) -> None:
    """Stop jobs, and keep them out of their queues until they are activated.

    What kueuectl calls stopping a workload. Submitting the job again activates it, too.

    \b
    Examples:
      sluice job deactivate train -m "the data is broken"
    """
    _switch(ctx, names, namespace, JobDeactivated(message=message), "deactivated")


@job.command()
@click.argument("names", nargs=-1, required=True, shell_complete=complete_jobs)
@namespace_option()
@click.option("-m", "--message", default="", help="Why, for people.")
@click.pass_context
def activate(ctx: click.Context, names: tuple[str, ...], namespace: str, message: str) -> None:
    """Let jobs be queued again that were deactivated: by people, by a check, or for too many failures.

    What kueuectl calls resuming a workload. Failed attempts and execution time are counted anew, from none;
    the numbers of attempts go on.

    \b
    Examples:
      sluice job activate train
    """
    _switch(ctx, names, namespace, JobActivated(message=message), "activated")


def _switch(
    ctx: click.Context, names: Sequence[str], namespace: str, event: JobActivated | JobDeactivated, done: str
) -> None:
    async def work(api: Api) -> int:
        failed = 0
        for name in names:
            try:
                await existing(api, BY_KIND["Job"], name, namespace)
                seq = await publish_job_event(api, namespace, name, event)
                remark = await settle(api, seq, f"job/{name} was not {done} (event {seq})")
            except CliError as error:
                if error.code != EXIT_FAILED:
                    raise
                failed += 1
                error.show()
                continue
            if remark == changes_nothing(DUPLICATE):
                is_so = "active" if isinstance(event, JobActivated) else "inactive"
                echo(f"job/{name} is {is_so} already, event {seq}")
            else:
                echo(f"job/{name} {done}, event {seq}{aside(remark)}")
        return failed

    if run(ctx, work):
        raise CliError(f"not all jobs were {done}")


@job.command()
@click.argument("name", shell_complete=complete_jobs)
@namespace_option()
@click.option("--failed", is_flag=True, help="It ended without success.")
@click.option("-m", "--message", default="", help="Why, for people.")
@click.pass_context
def finish(ctx: click.Context, name: str, namespace: str, failed: bool, message: str) -> None:
    """Say that a job has ended, as its upstream system would."""

    async def work(api: Api) -> None:
        await existing(api, BY_KIND["Job"], name, namespace)
        event = JobFinished(success=not failed, message=message)
        seq = await publish_job_event(api, namespace, name, event)
        remark = await settle(api, seq, f"job/{name} was not finished (event {seq})")
        echo(f"job/{name} finished ({'failed' if failed else 'succeeded'}), event {seq}{aside(remark)}")

    run(ctx, work)


@job.command()
@click.argument("names", nargs=-1, required=True, shell_complete=complete_jobs)
@namespace_option()
@click.option("--ignore-not-found", is_flag=True, help="What does not exist is no error.")
@click.pass_context
def delete(ctx: click.Context, names: tuple[str, ...], namespace: str, ignore_not_found: bool) -> None:
    """Delete jobs: they are stopped, and their workloads go with them."""
    references = [Reference(kind="Job", name=name, namespace=namespace) for name in names]

    async def work(api: Api) -> int:
        return await delete_jobs(api, references, ignore_not_found=ignore_not_found)

    if run(ctx, work):
        raise CliError("not all jobs were deleted")


async def delete_jobs(
    api: Api, references: Sequence[Reference], *, dry_run: bool = False, ignore_not_found: bool = False
) -> int:
    """Publish JobDeleted for each job that exists; return how many do not."""
    failed = 0
    for reference in references:
        if await api.get("Job", reference.name, reference.namespace) is None:
            if not ignore_not_found:
                failed += 1
                (await not_found(api, BY_KIND["Job"], reference.name, reference.namespace)).show()
            continue
        if not dry_run:
            await publish_job_event(api, reference.namespace, reference.name, JobDeleted())
        echo(f"job/{reference.name} deleted{' (server dry run)' if dry_run else ''}")
    return failed
