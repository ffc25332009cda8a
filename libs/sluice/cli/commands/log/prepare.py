"""`sluice log prepare`: makes the stream of the log, or brings its settings up to date."""

import asyncio

import click

from sluice.cli.cell.client import find_target
from sluice.cli.kit.errors import CliError
from sluice.cli.kit.settings import Settings
from sluice.cli.kit.terminal import echo
from sluice.log.errors import EventLogError
from sluice.log.nats.jetstream import JetStreamLog

OPEN_S = 10.0


@click.command()
@click.option("--replicas", type=click.IntRange(1, 5), default=1, help="Copies in a cluster of servers.")
@click.pass_obj
def prepare(settings: Settings, replicas: int) -> None:
    """Make the log's stream on the server, or add what newer versions of Sluice need to it.

    Services make the stream if there is none, but may not change it: where they have users of their own, this
    is for the user keeper, before an update whose notes ask for it. What is there already is left as it is.
    """
    target = find_target(settings)

    async def run() -> str:
        log = JetStreamLog(target.url, target.cell, name="sluice-prepare", replicas=replicas)
        try:
            await log.open(OPEN_S)
            return log.cell.stream
        finally:
            await log.close()

    try:
        stream = asyncio.run(run())
    except EventLogError as error:
        raise CliError(str(error)) from None
    echo(f"{stream} is ready.")
