"""`python -m sluice.services.agent`: runs dispatched jobs as processes of this machine."""

import asyncio
import os
import signal
import sys

import structlog
import uvloop

from sluice import telemetry
from sluice.log.runtime.config import CellConfig, load_cell, refuse
from sluice.sdk import SdkError

from .agent import Agent, AgentError
from .config import Config, load
from .isolation import protect

log = structlog.get_logger("sluice.agent")


async def _serve(cell: CellConfig, config: Config) -> int:
    agent = Agent(cell, config)
    loop = asyncio.get_running_loop()
    for which in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(which, agent.stop)
    log.info("started", service="agent", name=config.name, cell=cell.cell, work_dir=config.work_dir)
    try:
        await agent.serve()
    except (AgentError, SdkError) as error:
        log.error("cannot go on", service="agent", name=config.name, error=str(error))
        return 1
    log.info("stopped", service="agent", name=config.name)
    return 0


def main() -> None:
    """Run until SIGTERM or SIGINT: exit code 0 in order, 1 for a fault, 2 for a bad setting."""
    protect()
    try:
        cell = load_cell(os.environ)
        config = load(os.environ, cell.data_dir)
        observer = telemetry.start("agent", config.name, os.environ)
    except ValueError as error:
        refuse("agent", error)
    code = uvloop.run(_serve(cell, config))
    observer.close()
    sys.exit(code)


if __name__ == "__main__":
    main()
