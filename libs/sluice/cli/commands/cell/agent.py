"""`sluice agent`: what people know of an executor that the cell cannot know."""

import click

from sluice.cli.cell.agents import add_heartbeats
from sluice.cli.cell.await_reply import answers
from sluice.cli.cell.client import Api, run
from sluice.cli.cell.lookup import existing
from sluice.cli.cell.name_completion import complete_agents
from sluice.cli.cell.publish import publish_job_event, source
from sluice.cli.kit.columns import dig, name
from sluice.cli.kit.errors import CliError, plural
from sluice.cli.kit.resources import BY_KIND
from sluice.cli.kit.table import Object
from sluice.cli.kit.terminal import echo
from sluice.events.job import JobStopped
from sluice.protocol.query import ListRequest

STARTED = ("Admitted", "Running", "Stopping")


@click.group()
def agent() -> None:
    """Say what became of an agent, or another executor."""


@agent.command()
@click.argument("agent_name", metavar="NAME", shell_complete=complete_agents)
@click.option("-m", "--message", default="", help="Why, for people.")
@click.pass_context
def lost(ctx: click.Context, agent_name: str, message: str) -> None:
    """Declare an agent lost: its jobs are queued again, and evicted ones give their quota back.

    For one that is away and keeps its jobs (`AGENT_ON_LOSS=Wait`, or a long time of its own). You
    vouch that nothing of them runs any more: if it does, it runs beside what is begun elsewhere.

    \b
    Examples:
      sluice agent lost gpu-7 -m "its board is broken"
    """

    async def work(api: Api) -> None:
        found = await existing(api, BY_KIND["Agent"], agent_name, "")
        await add_heartbeats(api, [found])
        if dig(found, "status", "heartbeat", default=False):
            hint = "Stop it: then its jobs run elsewhere."
            raise CliError(f"agent/{agent_name} is there, its heartbeat goes on", hint=hint)
        seqs = await _stop_all(api, agent_name, message)
        refused = [answer.refused for answer in (await answers(api, seqs)).values() if answer.refused]
        if refused:
            raise CliError(
                f"agent/{agent_name}: {plural(len(refused), 'job')} not taken from it: {refused[0]}"
            )
        echo(f"agent/{agent_name} declared lost, {plural(len(seqs), 'job')} taken from it")

    run(ctx, work)


async def _stop_all(api: Api, agent_name: str, message: str) -> list[int]:
    """Say of each job that the agent has begun that it has stopped; return the messages' sequences."""
    request = ListRequest(kind="Job", field_selector=f"status.executor={agent_name}")
    jobs = [job for job in (await api.list(request)).items if dig(job, "status", "phase") in STARTED]
    why = f'The agent "{agent_name}" was declared lost by {source().partition("/")[2]}'
    return [await _stop(api, job, agent_name, f"{why}: {message}" if message else why) for job in jobs]


async def _stop(api: Api, job: Object, agent_name: str, message: str) -> int:
    stopped = JobStopped(
        attempt=dig(job, "status", "attempt", default=None),
        uid=dig(job, "metadata", "uid", default=""),
        executor=agent_name,
        message=message,
    )
    return await publish_job_event(api, dig(job, "metadata", "namespace"), name(job), stopped)
