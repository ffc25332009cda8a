"""What the cell of a fault run is set up with, and somebody who keeps editing it."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec
import nats
from nats.aio.client import Client

from sluice.cli.client import decode
from sluice.cli.errors import EXIT_UNAVAILABLE, CliError
from sluice.events.query import ApplyRequest, ChangeAnswer

VERSION = "kueue.x-k8s.io/v1beta2"
CLASSES = {"low": 10, "mid": 50, "high": 100}
SIMULATED = tuple(f"q{index}" for index in range(6))
"""Queues whose jobs are run by the client of the test."""
REAL = "metal"
"""Queue and flavor of the jobs that agents run as processes."""
RACING, BETTER = ("q0", "q3", "q4"), "better"
"""Queues with concurrent admission, and the flavor that their jobs move up to."""
NOMINAL, LEAST, MOST = 8, 5, 10
"""Quota of a queue, and between what it is edited. Three queues of the least still hold the largest job."""
EDIT = "edit"
"""Annotation with the number of the edit that the object is of."""
ANSWER_S = 6.0
"""Longer than any outage of a run: an edit that was given up but lands later would undo a newer one."""

Manifest = dict[str, Any]


def cluster_queue(name: str, nominal: int = NOMINAL, edit: int = 0) -> Manifest:
    index = SIMULATED.index(name)
    found = _queue(
        name,
        "default",
        {"name": "cpu", "nominalQuota": nominal, "borrowingLimit": 16},
        cohort=f"cohort-{index % 2}",
        strategy="StrictFIFO" if index == 5 else "BestEffortFIFO",
        edit=edit,
    )
    if name in RACING:
        better = {"name": BETTER, "resources": [{"name": "cpu", "nominalQuota": 4, "borrowingLimit": 4}]}
        found["spec"]["resourceGroups"][0]["flavors"].insert(0, better)
        found["spec"]["concurrentAdmissionPolicy"] = {"migration": {"mode": "TryPreferredFlavors"}}
    return found


def _queue(name: str, flavor: str, quota: Manifest, *, cohort: str, strategy: str, edit: int = 0) -> Manifest:
    return {
        "apiVersion": VERSION,
        "kind": "ClusterQueue",
        "metadata": {"name": name, "annotations": {EDIT: str(edit)}},
        "spec": {
            "cohortName": cohort,
            "namespaceSelector": {},
            "queueingStrategy": strategy,
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [
                {"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": [quota]}]}
            ],
        },
    }


def objects() -> list[Manifest]:
    """Return the whole configuration: two cohorts of three queues, and one for real processes."""
    found: list[Manifest] = [
        {"apiVersion": VERSION, "kind": "ResourceFlavor", "metadata": {"name": name}}
        for name in ("default", BETTER, REAL)
    ]
    found += [
        {"apiVersion": VERSION, "kind": "WorkloadPriorityClass", "metadata": {"name": n}, "value": v}
        for n, v in CLASSES.items()
    ]
    found += [cluster_queue(name) for name in SIMULATED]
    metal = {"name": "cpu", "nominalQuota": 4}
    found.append(_queue(REAL, REAL, metal, cohort="machines", strategy="BestEffortFIFO"))
    found += [
        {
            "apiVersion": VERSION,
            "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"clusterQueue": name},
        }
        for name in (*SIMULATED, REAL)
    ]
    return found


@dataclass
class Editor:
    """Changes quotas through the api service, and knows what must have come of it."""

    client: Client
    random: random.Random
    cell: str = "main"
    tried: dict[int, str] = field(default_factory=dict)
    """Number of each edit -> its queue."""
    acknowledged: dict[int, int] = field(default_factory=dict)
    """Number of each edit that was answered -> sequence at which the log has it."""
    last: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Queue -> number of the last edit, and its quota."""
    unanswered: int = 0

    async def set_up(self) -> None:
        await self.apply(objects())

    async def edit_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(0.2, 0.8))
            await self.edit(self.random.choice(SIMULATED), self.random.randint(LEAST, MOST))

    async def edit(self, queue: str, nominal: int) -> None:
        number = len(self.tried) + 1
        self.tried[number] = queue
        self.last[queue] = (number, nominal)
        self.acknowledged[number] = await self.apply([cluster_queue(queue, nominal, number)])

    async def restore(self) -> None:
        """Give every queue its first quota back."""
        for queue in SIMULATED:
            await self.edit(queue, NOMINAL)

    async def apply(self, manifests: list[Manifest]) -> int:
        """Apply until it is answered; returns the sequence at which the log has it.

        Raises:
            RuntimeError, CliError: something was refused.
        """
        request = msgspec.json.encode(ApplyRequest(objects=manifests))
        while True:
            try:
                subject = f"sluice.{self.cell}.api.apply"
                reply = await self.client.request(subject, request, timeout=ANSWER_S)
                answer = decode(reply.data, ChangeAnswer)
            except (nats.errors.Error, OSError, TimeoutError, CliError) as error:
                if isinstance(error, CliError) and error.code != EXIT_UNAVAILABLE:
                    raise
                self.unanswered += 1
                await asyncio.sleep(0.1)
                continue
            refused = [result for result in answer.results if result.outcome == "refused"]
            if refused:
                raise RuntimeError(f"configuration refused: {refused[0]}")
            return answer.seq

    def check(self, found: list[tuple[int, str, int, int]]) -> list[str]:
        """Return what is wrong with the edits in the log: (sequence, queue, edit, quota) of each."""
        wrong = []
        count = Counter(number for _, _, number, _ in found if number)
        wrong += [f"edit {number} was acknowledged and lost" for number in self.acknowledged.keys() - count]
        wrong += [f"edit {number} stands {n} times in the log" for number, n in count.items() if n > 1]
        final = {queue: (number, nominal) for _, queue, number, nominal in found}
        wrong += [
            f"{queue}: edit {number} with quota {nominal} was the last, the log has {final.get(queue)}"
            for queue, (number, nominal) in self.last.items()
            if final.get(queue) != (number, nominal)
        ]
        return wrong
