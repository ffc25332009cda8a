"""`python -m tests.fault [--kills N] [--seed N]`: kill everything at random while jobs run, then check.

Last line: `fault: N kills, N jobs, N lost, N double, N divergent`; non-zero exit if anything is wrong.
"""

import argparse
import asyncio
import hashlib
import random
import sys
import tempfile
import time
from pathlib import Path

import nats
from nats.aio.client import Client

from tests.bench.end_to_end import apply
from tests.system import System

from .chaos import Chaos
from .check import Findings, check, read_all
from .client import Job, World

REPLICAS = {"api": 1, "slice_aggregator": 2, "scheduler": 2}
ANSWERS_AS = {"slice_aggregator": "slice_aggregator", "scheduler": "scheduler"}
WRITER_OF = {"slice_aggregator": "slices", "scheduler": "scheduler"}
CLASSES = {"low": 10, "mid": 50, "high": 100}


def configuration() -> list[dict[str, object]]:
    version = "kueue.x-k8s.io/v1beta2"
    objects: list[dict[str, object]] = [
        {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": "default"}}
    ]
    objects += [
        {"apiVersion": version, "kind": "WorkloadPriorityClass", "metadata": {"name": n}, "value": v}
        for n, v in CLASSES.items()
    ]
    for index in range(6):
        quota = {"name": "cpu", "nominalQuota": 8, "borrowingLimit": 16}
        objects.append(
            {
                "apiVersion": version,
                "kind": "ClusterQueue",
                "metadata": {"name": f"q{index}"},
                "spec": {
                    "cohortName": f"cohort-{index % 2}",
                    "namespaceSelector": {},
                    "queueingStrategy": "StrictFIFO" if index == 5 else "BestEffortFIFO",
                    "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
                    "resourceGroups": [
                        {
                            "coveredResources": ["cpu"],
                            "flavors": [{"name": "default", "resources": [quota]}],
                        }
                    ],
                },
            }
        )
        objects.append(
            {
                "apiVersion": version,
                "kind": "LocalQueue",
                "metadata": {"name": f"q{index}", "namespace": "default"},
                "spec": {"clusterQueue": f"q{index}"},
            }
        )
    return objects


async def submit_for_ever(world: World, rng: random.Random) -> None:
    number = 0
    while True:
        world.submit(
            Job(
                name=f"job-{number}",
                queue=f"q{rng.randrange(6)}",
                priority_class=rng.choice(sorted(CLASSES)),
                cpu=rng.choice([1, 1, 2, 4, 8]),
                runs_s=rng.uniform(0.1, 1.5),
            )
        )
        number += 1
        await asyncio.sleep(rng.uniform(0.02, 0.15))


async def connect(url: str) -> Client:
    async def quiet(_: Exception) -> None:
        """Lost connections are what this is about."""

    return await nats.connect(url, max_reconnect_attempts=-1, reconnect_time_wait=0.1, error_cb=quiet)


async def run(system: System, kills: int, seed: int) -> tuple[Chaos, World, Findings]:
    rng = random.Random(seed)
    for folder, count in REPLICAS.items():
        for _ in range(count):
            system.start(folder)
    client = await connect(system.url)
    await apply(client, configuration())
    world = World(client)
    chaos = Chaos(system, client, rng, ANSWERS_AS)
    executor = asyncio.create_task(world.execute())
    submitter = asyncio.create_task(submit_for_ever(world, rng))
    while chaos.kills < kills:
        await asyncio.sleep(rng.uniform(0.2, 1.0))
        what = await chaos.one()
        print(
            f"{chaos.kills:4} kills  {len(world.jobs):5} jobs  {len(world.open()):4} open  {what}", flush=True
        )
        for task in (executor, submitter):
            if task.done():
                task.result()
    submitter.cancel()
    await settle(world, system)
    await asyncio.sleep(2.0)
    findings = await verdict(system, chaos, world)
    executor.cancel()
    await client.close()
    return chaos, world, findings


async def settle(world: World, system: System, timeout_s: float = 120) -> None:
    """Wait until every job has finished and the log knows; what has not by then is lost."""
    began = time.monotonic()
    for name in REPLICAS:
        if not system.live(name):
            system.start(name)
    while world.open() and time.monotonic() - began < timeout_s:  # noqa: ASYNC110
        await asyncio.sleep(0.2)
    await world.said()


async def verdict(system: System, chaos: Chaos, world: World) -> Findings:
    entries = await read_all(system.url)
    findings = check(entries, set(world.jobs), lambda data: hashlib.sha256(data).hexdigest())
    findings.double += world.wrong
    for folder, writer in WRITER_OF.items():
        digests = await chaos.digests(folder)
        if not digests:
            findings.divergent.append(f"{folder}: no replica answers")
        for answer in digests:
            if answer.digest != findings.digests[writer]:
                findings.divergent.append(
                    f"{folder} {answer.instance} ({answer.role}): its state is not what the log makes"
                )
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.fault", description=__doc__)
    parser.add_argument("--kills", type=int, default=60, help="SIGKILLs to reach (default 60)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="to repeat a run")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="sluice-fault-") as folder,
        System(Path(folder), env={"SLUICE_LOG_LEVEL": "info"}) as system,
    ):
        try:
            chaos, world, findings = asyncio.run(run(system, options.kills, options.seed))
        except BaseException:
            print(system.tail_logs())
            raise
        wrong = findings.lost or findings.double or findings.divergent or chaos.slow
        if wrong:
            print(system.tail_logs(30))
    for kind, lines in vars(findings).items():
        if kind != "digests" and lines:
            print(f"{kind}:", *lines[:10], sep="\n  ")
    print("damage:", ", ".join(f"{count} x {what}" for what, count in sorted(chaos.done.items())))
    takeovers = sorted(chaos.takeovers_s)
    if takeovers:
        print(
            f"take-over: {len(takeovers)} measured, median {takeovers[len(takeovers) // 2]:.2f} s, "
            f"longest {takeovers[-1]:.2f} s (wanted under 2 s)"
        )
    for line in chaos.slow:
        print(line)
    print(
        f"fault: {chaos.kills} kills, {len(world.jobs)} jobs, {len(findings.lost)} lost, "
        f"{len(findings.double)} double, {len(findings.divergent)} divergent"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
