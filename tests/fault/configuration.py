"""What the cell of a fault run is set up with, and somebody who keeps editing it."""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import nats
from nats.aio.client import Client

from sluice.api.labels import ANSWER_TIMEOUT_SECONDS
from sluice.cli.cell.client import decode
from sluice.cli.kit.errors import EXIT_UNAVAILABLE, CliError
from sluice.protocol.query import ApplyRequest, ChangeAnswer
from tests.support.objects import kueue_object, priority_class

from .check_controller import controller_name

VERSION = "kueue.x-k8s.io/v1beta2"
CLASSES = {"low": 10, "mid": 50, "high": 100}
SIMULATED = tuple(f"q{index}" for index in range(6))
"""Queues whose jobs are run by the client of the test."""
REAL = "metal"
"""Queue and flavor of the jobs that agents run as processes."""
BRIDGE = "bridge"
"""Queue and flavor of the jobs that executors made with the SDK run."""
ELASTIC = ("q1", "q2", "q5", REAL, BRIDGE)
"""Queues in which some jobs change their size while they run: no queue with concurrent admission may."""
RUNS = "runs"
"""Annotation with the seconds that a job runs on an executor made with the SDK."""
RACING, BETTER = ("q0", "q3", "q4"), "better"
"""Queues with concurrent admission, and the flavor that their jobs move up to."""
NOMINAL, LEAST, MOST = 8, 5, 10
"""Quota of a queue, and between what it is edited. Three queues of the least still hold the largest job."""
EDIT = "edit"
"""Annotation with the number of the edit that the object is of."""
ANSWER_TIMEOUT_S = 4
"""How long a check may go unanswered: now and then none is (`check_controller`)."""
ANSWER_S = 6.0
"""Longer than any outage of a run: an edit that was given up but lands later would undo a newer one."""

Manifest = dict[str, Any]
Checks = Mapping[str, Sequence[str]]
"""Queue -> the admission checks that its jobs pass."""
SOME_CHECKS: Checks = {"q2": ("a",)}

SETTINGS: Manifest = {
    "apiVersion": "sluice.dev/v1alpha1",
    "kind": "Configuration",
    "metadata": {"name": "default"},
    "spec": {"admissionChecks": {"backoffBaseSeconds": 1}},
}


def cluster_queue(name: str, checks: Checks, nominal: int = NOMINAL, edit: int = 0) -> Manifest:
    index = SIMULATED.index(name)
    found = _queue(
        name,
        "default",
        {"name": "cpu", "nominalQuota": nominal, "borrowingLimit": 16},
        cohort=f"cohort-{index % 2}",
        strategy="StrictFIFO" if index == 5 else "BestEffortFIFO",
        edit=edit,
    )
    if name in checks:
        rules = [{"name": check} for check in checks[name]]
        found["spec"]["admissionChecksStrategy"] = {"admissionChecks": rules}
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


def objects(checks: Checks) -> list[Manifest]:
    """Return the whole configuration: two cohorts of three queues, and one for each kind of executors."""
    found: list[Manifest] = [
        {"apiVersion": VERSION, "kind": "ResourceFlavor", "metadata": {"name": name}}
        for name in ("default", BETTER, REAL, BRIDGE)
    ]
    found += [SETTINGS, *map(_check, names_of(checks))]
    found += [priority_class(n, v) for n, v in CLASSES.items()]
    found += [cluster_queue(name, checks) for name in SIMULATED]
    for name, nominal in ((REAL, 6), (BRIDGE, 10)):
        quota = {"name": "cpu", "nominalQuota": nominal}
        found.append(_queue(name, name, quota, cohort="machines", strategy="BestEffortFIFO"))
    found += [
        kueue_object("LocalQueue", name, {"clusterQueue": name}, namespace="default")
        for name in (*SIMULATED, REAL, BRIDGE)
    ]
    return found


def names_of(checks: Checks) -> list[str]:
    """Return the names of all checks."""
    return sorted({name for its in checks.values() for name in its})


def _check(name: str) -> Manifest:
    return {
        "apiVersion": VERSION,
        "kind": "AdmissionCheck",
        "metadata": {"name": name, "annotations": {ANSWER_TIMEOUT_SECONDS: str(ANSWER_TIMEOUT_S)}},
        "spec": {"controllerName": controller_name(name)},
    }


@dataclass
class Editor:
    """Changes quotas through the api service, and knows what must have come of it."""

    client: Client
    random: random.Random
    checks: Checks = field(default_factory=lambda: SOME_CHECKS)
    cell: str = "main"
    tried: dict[int, str] = field(default_factory=dict)
    """Number of each edit -> its queue."""
    acknowledged: dict[int, int] = field(default_factory=dict)
    """Number of each edit that was answered -> sequence at which the log has it."""
    last: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Queue -> number of the last edit, and its quota."""
    unanswered: int = 0

    async def set_up(self) -> None:
        await self.apply(objects(self.checks))

    async def edit_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(0.2, 0.8))
            await self.edit(self.random.choice(SIMULATED), self.random.randint(LEAST, MOST))

    async def edit(self, queue: str, nominal: int) -> None:
        number = len(self.tried) + 1
        self.tried[number] = queue
        self.last[queue] = (number, nominal)
        self.acknowledged[number] = await self.apply([cluster_queue(queue, self.checks, nominal, number)])

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
