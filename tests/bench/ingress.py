"""How fast submissions get into the log: straight, as services and upstream systems publish, and by the gate.

    python -m tests.bench.ingress --jobs 50000 --rounds 3

On a server with users of its own, which does not sync each message; each way in turn, a team with no bounds
and one with a queue and a rate.
Acknowledgements are waited for in parts of 500, as `submit_many` does.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from sluice.sdk import AsyncClient
from tests.integration.deploy.secured import SecuredCell

TEAMS = {
    "upstream": (),
    "free": ("-n", "free"),
    "bound": ("-n", "bound", "-q", "batch", "--rate", "1000000", "--burst", "1000000"),
}


class Quick(SecuredCell):
    """Not on disk at each message: that is what would be measured otherwise."""

    def configured(self, text: str) -> str:
        return text.replace("sync_interval: always", 'sync_interval: "2m"')


def manifest(namespace: str, number: int) -> dict[str, object]:
    return {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Job",
        "metadata": {"name": f"j{number}", "namespace": namespace},
        "spec": {"queueName": "batch", "command": ["true"], "resources": {"cpu": 1}},
    }


async def rate(cell: SecuredCell, user: str, jobs: int) -> float:
    """Return submissions a second."""
    manifests = [manifest(user, number) for number in range(jobs)]
    async with AsyncClient(cell.url(user), timeout_s=60) as client:
        await client.submit(manifests[0])
        begun = time.perf_counter()
        await client.submit_many(manifests)
        return jobs / (time.perf_counter() - begun)


def run(jobs: int = 50_000, rounds: int = 3) -> dict[str, list[int]]:
    """Return submissions a second of each user, round by round."""
    rates: dict[str, list[int]] = {user: [] for user in TEAMS}
    with tempfile.TemporaryDirectory() as directory, Quick(Path(directory) / "cell") as cell:
        for name, words in TEAMS.items():
            if words:
                cell.change("add", name, "--role", "team", *words)
        cell.service("gate")
        assert cell.sluice("keeper", "log", "prepare").code == 0
        for _ in range(rounds):
            for user in TEAMS:
                found = asyncio.run(rate(cell, user, jobs))
                rates[user].append(round(found))
                print(f"{user:10} {found:9,.0f} a second", flush=True)
    return rates


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    run(given.jobs, given.rounds)
