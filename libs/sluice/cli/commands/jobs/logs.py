"""`sluice logs`: what a job's processes printed, for jobs that agents of this machine ran."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import click

from sluice.cli.cell.client import Api, run
from sluice.cli.cell.lookup import existing
from sluice.cli.cell.name_completion import complete_jobs
from sluice.cli.cell.selectors import namespace_option
from sluice.cli.kit.errors import CliError
from sluice.cli.kit.resources import BY_KIND

from .pod_logs import JobLogs, agents_directory
from .wait import follow_jobs

LOOK_EVERY_S = 0.2


@click.command()
@click.argument("job", shell_complete=complete_jobs)
@click.argument("pod", required=False)
@namespace_option()
@click.option("--attempt", type=click.IntRange(1), help="Of which start of the job (default: the latest).")
@click.option("--tail", type=click.IntRange(0), help="Last lines only.")
@click.option("-f", "--follow", is_flag=True, help="Go on as more is printed, until the job has ended.")
@click.pass_context
def logs(
    ctx: click.Context,
    job: str,
    pod: str | None,
    namespace: str,
    attempt: int | None,
    tail: int | None,
    follow: bool,
) -> None:
    """Print what a job's pods printed. Pods are called PODSET-INDEX, as in main-0.

    Output is kept where the agent runs, so this finds it from the directory of `sluice up`.

    \b
    Examples:
      sluice logs train
      sluice logs train main-1 --tail 20
      sluice logs train -f            also of further attempts
    """
    name = job.removeprefix("job/")
    found = JobLogs(agents_directory(), namespace, name, pod=pod or "", attempt=attempt or 0)
    found.refresh()
    if not found.logs and not follow:
        which = f" pod {pod!r} of" if pod else ""
        raise CliError(
            f"no output of{which} job {namespace}/{name} is on this machine",
            hint=f"It may not have run yet, or elsewhere: `sluice describe job {name}` says where.",
        )
    if tail is not None:
        for log in found.logs.values():
            log.skip_to_last(tail)
    found.print_new(final=not follow)
    if follow:
        run(ctx, lambda api: _follow(api, found))


async def _follow(api: Api, found: JobLogs) -> None:
    await existing(api, BY_KIND["Job"], found.job, found.namespace)
    async with printed([found]):
        await follow_jobs(api, [f"{found.namespace}/{found.job}"], quiet=True)


@asynccontextmanager
async def printed(jobs: Sequence[JobLogs]) -> AsyncIterator[None]:
    """Print the output of jobs as it comes, until the block ends."""

    def look(*, final: bool = False) -> None:
        for job in jobs:
            job.refresh()
            job.print_new(final=final)
        sys.stdout.flush()

    async def keep_looking() -> None:
        while True:
            look()
            await asyncio.sleep(LOOK_EVERY_S)

    if not jobs:
        yield
        return
    looking = asyncio.create_task(keep_looking())
    try:
        yield
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking
        look(final=True)
