"""From freed capacity to the process of the migrated job: `python -m tests.bench.migration_agents [MOVES]`.

As `migration`, but two agents, one for each flavor, run the jobs as processes. The clock runs from the moment
at which the process on the better flavor ends until the other job's process has begun there, by what both
write down themselves: what it takes to notice an end, to stop processes and to start them is part of it.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import nats
import uvloop
from nats.aio.client import Client

from tests.support.system import System

from .cell import fresh_cell
from .end_to_end import apply, percentile
from .messages import job_message
from .migration import BEST, REST
from .scenario import JobClass, PlannedJob, Scenario, job_manifest, manifests

MOVES = 100
WARM_UP = 5
WAIT_S = 30.0

_CLASS = JobClass("only", 1, 1, 0, 0, 0)
_SCENARIO = Scenario(
    "migration", 1, 1, (_CLASS,), 0.0, nominal_cpu=2, flavors=(BEST, REST), policy="TryPreferredFlavors"
)
_SCRIPT = """date +%s%N >> {here}/started-{name}
while [ -d {here} ] && [ ! -e {here}/end-{name} ]; do sleep 0.005; done
[ ! -d {here} ] || date +%s%N > {here}/ended-{name}"""
"""Each start adds a line of its time; told by a file, it ends, and says when.
The last one ends when the directory is gone."""


def run(moves: int = MOVES) -> dict[str, object]:
    with fresh_cell() as system:
        for flavor in (BEST, REST):
            work = str(system.directory / f"work-{flavor}")
            env = {"AGENT_NAME": flavor, "AGENT_FLAVORS": flavor, "AGENT_WORK_DIR": work}
            system.start("agent", env, label=f"agent-{flavor}")
        return uvloop.run(_run(system, system.directory, moves))


async def _run(system: System, here: Path, moves: int) -> dict[str, object]:
    control = await nats.connect(system.url)
    await apply(control, manifests(_SCENARIO))
    took: list[float] = []
    try:
        await _submit(control, here, "job-0")
        await _starts(here, "job-0", 1)
        for number in range(1, WARM_UP + moves + 1):
            before, name = f"job-{number - 1}", f"job-{number}"
            await _submit(control, here, name)
            await _starts(here, name, 1)
            (here / f"end-{before}").touch()
            (_, moved) = await _starts(here, name, 2)
            took.append((moved - int((here / f"ended-{before}").read_text())) / 1e6)
        (here / f"end-{name}").touch()
    finally:
        await control.close()
    took = sorted(took[WARM_UP:])
    return {
        "bench": "migration-agents",
        "moves": moves,
        "p50_ms": round(percentile(took, 0.5), 1),
        "p99_ms": round(percentile(took, 0.99), 1),
        "max_ms": round(took[-1], 1),
    }


async def _submit(client: Client, here: Path, name: str) -> None:
    manifest: dict[str, Any] = msgspec.json.decode(job_manifest(PlannedJob(0.0, name, "cq-0-0", _CLASS)))
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["command"] = ["sh", "-c", _SCRIPT.format(here=here, name=name)]
    message = job_message("JobSubmitted", f"default/{name}", manifest)
    await client.publish(f"sluice.main.job.default.{name}", message)


async def _starts(here: Path, name: str, count: int) -> list[int]:
    """Wait until the job's process has begun *count* times; returns when, in ns since the epoch."""
    path = here / f"started-{name}"
    async with asyncio.timeout(WAIT_S):
        while True:
            lines = path.read_text().split() if path.exists() else []
            if len(lines) >= count:
                return [int(line) for line in lines]
            await asyncio.sleep(0.005)


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]) if len(sys.argv) > 1 else MOVES)))
