"""What makes every panel of every dashboard show something.

Jobs wait, race, migrate, preempt, grow, are checked, fail and are refused.
"""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import nats
import yaml

from sluice.sdk import Client
from tests.support.waiting import wait_until

from .watched_cell import CHECKED, HIGH, ROOT, Cell, plain_job, queue, submit

RACING = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: res}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: od}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: racing}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  admissionChecksStrategy: {admissionChecks: [{name: asked}]}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: res, resources: [{name: cpu, nominalQuota: 1}]}
    - {name: od, resources: [{name: cpu, nominalQuota: 1}]}
  concurrentAdmissionPolicy: {migration: {mode: TryPreferredFlavors}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: racing, namespace: default}
spec: {clusterQueue: racing}
"""

LIMITED = {"nominalQuota: 2": "nominalQuota: 2, borrowingLimit: 1, lendingLimit: 1"}


def prepare(cell: Cell) -> None:
    """Make the queue that races, and its checks."""
    (cell.home / "racing.yaml").write_text("---".join([CHECKED, HIGH, RACING]))
    cell.run("apply", "-f", "racing.yaml")


def status(cell: Cell, job: str) -> dict[str, object]:
    found = json.loads(cell.run("get", "job", job, "-o", "json"))
    return dict(found.get("status") or {})


def approved(cell: Cell, job: str, flavor: str) -> None:
    """Have people say yes to whatever of the job asks, until it runs on *flavor*."""

    def runs() -> bool:
        for item in json.loads(cell.run("get", "workloads", "-o", "json"))["items"]:
            name = item["metadata"]["name"]
            asked = [c["state"] for c in item.get("status", {}).get("admissionChecks", ())]
            if name.startswith(f"job-{job}-") and "Pending" in asked:
                # It may have been withdrawn since.
                cell.try_run("check", "approve", name, "asked")
        found = status(cell, job)
        return found.get("phase") == "Running" and found.get("flavors") == [flavor]

    wait_until(runs)


def race(cell: Cell) -> None:
    """Have `train` start on od, move to res, be preempted there, and end on od."""
    submit(cell, "first", "racing")
    approved(cell, "first", "res")
    submit(cell, "train", "racing")
    approved(cell, "train", "od")
    cell.run("job", "finish", "first")
    approved(cell, "train", "res")
    cell.run("submit", "-q", "racing", "--name", "urgent", "--priority-class", "high", "--", "sleep", "600")
    approved(cell, "urgent", "res")
    approved(cell, "train", "od")
    cell.run("job", "finish", "train")
    wait_until(lambda: status(cell, "train").get("phase") == "Succeeded")


def grow(cell: Cell) -> None:
    for file in ("queue", "job"):
        cell.run("apply", "-f", str(ROOT / f"examples/elastic/{file}.yaml"))
    wait_until(lambda: status(cell, "demo-slice").get("phase") == "Running")
    cell.run("job", "scale", "demo-slice", "5")
    wait_until(lambda: cell.value("sluice_workload_slices_replaced_total > 0"))
    cell.run("job", "scale", "demo-slice", "2")
    wait_until(lambda: cell.value("sluice_workload_slices_resized_total > 0"))
    cell.run("job", "delete", "demo-slice")


def borrow(cell: Cell) -> None:
    """Cohorts, limits, constraints; jobs that wait, and one that preempts."""
    for file in ("queues", "cannot-borrow"):
        cell.run("apply", "-f", str(ROOT / f"examples/constraints/{file}.yaml"))
    cohort = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Cohort",
        "metadata": {"name": "constraints"},
        "spec": {},
    }
    (cell.home / "cohort.yaml").write_text(yaml.safe_dump(cohort))
    queue(cell, "member", cohortName="constraints")
    text = (cell.home / "member.yaml").read_text()
    for before, after in LIMITED.items():
        assert before in text
        text = text.replace(before, after)
    (cell.home / "member.yaml").write_text(text)
    cell.run("apply", "-f", "member.yaml", "-f", "cohort.yaml")
    for n in range(4):
        submit(cell, f"member-{n}", "member")
    cell.run("submit", "-q", "member", "--name", "pushes", "--priority-class", "high", "--", "sleep", "600")


def refuse(cell: Cell) -> None:
    async def publish() -> None:
        client = await nats.connect(cell.url())
        await client.jetstream().publish("sluice.main.job.default.rubbish", b"{}")
        await client.close()

    asyncio.run(publish())


def ends(cell: Cell, number: int) -> None:
    """Submit a job that succeeds and one that fails."""
    for name, words in {"works": ["true"], "fails": ["false"]}.items():
        cell.run("submit", "-q", "elastic", "--name", f"{name}-{number}", "--", *words)


@contextmanager
def traffic(cell: Cell, each_s: float = 1.0) -> Iterator[None]:
    """Submit short jobs meanwhile, in bursts; every seventh preempts."""
    over = threading.Event()

    def work() -> None:
        with Client(cell.url()) as client:
            for number in count():
                if over.wait(each_s):
                    return
                for place in range(4 if number // 10 % 2 else 1):
                    high = "high" if number % 7 == 0 and place else ""
                    where = "elastic" if place else "lender"
                    client.submit(plain_job(f"short-{number}-{place}", where, 3, high))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
