"""A ledger with a story: budgets, workloads that run, requests."""

from typing import Any

import msgspec

from sluice.events.base import PodSet, PodSetAssignment, WorkloadKey
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.scheduler import Admitted, QuotaReserved, WorkloadSliceReplaced
from sluice.events.slices import WorkloadCreated, WorkloadFinished, WorkloadRecord
from sluice.sdk.checks import Request, Verdict
from sluice.sdk.checks.testing import make_request
from sluice.services.check_budget.ledger import Case, Ledger

SECOND = 1_000_000
HOUR = 3600 * SECOND
MONDAY = 1_795_392_000 * SECOND
"""2026-11-23T00:00Z, a Monday."""


class World:
    """A ledger at a time that one can turn. A core for an hour costs 1 EUR."""

    def __init__(self, now: int = MONDAY + 24 * HOUR) -> None:
        self.ledger, self.now, self.seq = Ledger(), now, 0

    def budget(self, name: str = "team-a", cost: Any = 100, **spec: Any) -> None:
        self.seq += 1
        whole = {
            "apiVersion": "sluice.dev/v1alpha1",
            "kind": "Budget",
            "metadata": {"name": name},
            "spec": {
                "scope": {"namespace": "a"},
                "period": {"unit": "Weekly"},
                "limits": {"cost": cost},
                "currency": "EUR",
                "prices": [{"resource": "cpu", "perHour": 1}],
                **spec,
            },
        }
        raw = msgspec.Raw(msgspec.json.encode(whole))
        self.ledger.apply(ObjectApplied(cause=0, kind="Budget", name=name, object=raw), self.seq, self.now)

    def no_budget(self, name: str) -> None:
        self.seq += 1
        self.ledger.apply(ObjectDeleted(cause=0, kind="Budget", name=name), self.seq, self.now)

    def reserve(self, name: str, cores: int = 1, max_s: int | None = None, **fields: Any) -> None:
        record = WorkloadRecord(
            namespace="a",
            name=name,
            uid=name,
            queue_name="queue",
            created_at=self.now,
            pod_sets=[PodSet(name="main", count=cores)],
            maximum_execution_time_s=max_s,
            **fields,
        )
        usage = PodSetAssignment(
            name="main", count=cores, flavors={"cpu": "default"}, usage={"cpu": cores * 1000}
        )
        self.ledger.apply(WorkloadCreated(cause=0, workload=record), 1, self.now)
        key = WorkloadKey(f"a/{name}")
        self.ledger.apply(
            QuotaReserved(cause=0, workload=key, cluster_queue="queue", pod_sets=[usage]), 1, self.now
        )

    def admit(self, name: str) -> None:
        self.ledger.apply(Admitted(cause=0, workload=WorkloadKey(f"a/{name}")), 1, self.now)

    def start(self, name: str, cores: int = 1, max_s: int | None = None, **fields: Any) -> None:
        self.reserve(name, cores, max_s, **fields)
        self.admit(name)

    def replace(self, old: str, new: str) -> None:
        """The slice *new* is admitted, and takes over."""
        self.admit(new)
        event = WorkloadSliceReplaced(
            cause=0, workload=WorkloadKey(f"a/{old}"), by=WorkloadKey(f"a/{new}"), message=""
        )
        self.ledger.apply(event, 1, self.now)

    def finish(self, name: str) -> None:
        self.ledger.apply(WorkloadFinished(cause=0, workload=WorkloadKey(f"a/{name}")), 1, self.now)

    def request(self, name: str, cores: int = 1, **fields: Any) -> Request[Any]:
        raw = make_request(
            namespace="a", name=name, uid=name, requests={"cpu": cores * 1000}, flavors="default", **fields
        )
        return Request(msgspec.structs.replace(raw, reserved_at=self.now), {})

    def ask(self, request: Request[Any]) -> Verdict:
        case = self.ledger.enter(request)
        if not case.approved:
            self.ledger.judge(self.now)
        return self.ledger.answer(case, self.now)

    def judge(self) -> list[Case]:
        return self.ledger.judge(self.now)
