"""The order of nominated entries within a cycle, without fair sharing."""

from datetime import datetime
from typing import Any

from sluice.api import kueue
from sluice.core.entry import Ordering
from sluice.core.model import Workload
from sluice.core.ordering import queue_order_timestamp
from sluice.events.slices import WorkloadRecord
from tests.conformance.build import micros
from tests.conformance.framework import Json, compare, gates

SUITE = "scheduler.TestEntryOrdering"
LEFT_OUT: dict[str, str] = {}


def run(case: Json, header: Json) -> None:
    timestamp: Any = case["options"].get("podsReadyRequeuingTimestamp") or "Creation"
    config = kueue.ConfigurationSpec(
        feature_gates=gates(case, header),
        wait_for_pods_ready=kueue.WaitForPodsReady(
            requeuing_strategy=kueue.RequeuingStrategy(timestamp=timestamp)
        ),
    )
    ordering = Ordering(config)
    keyed = []
    for index, entry in enumerate(case["input"]["entries"]):
        workload = _workload(entry, index, config)
        key = ordering.key(workload, entry["borrowing"], is_preemptor=entry["isPreemptor"])
        keyed.append((key, workload.record.name))
    compare([name for _, name in sorted(keyed)], case["expect"]["wantOrder"], "order")


def _workload(entry: Json, index: int, config: kueue.ConfigurationSpec) -> Workload:
    manifest = entry["workload"]
    created = datetime.fromisoformat(entry["creationTimestampNano"][:26] + "+00:00")
    record = WorkloadRecord(
        namespace="",
        name=manifest["metadata"]["name"],
        uid=f"{index:04}",
        queue_name="",
        created_at=int(created.timestamp() * 1_000_000),
        pod_sets=(),
        priority=int(manifest["spec"].get("priority") or 0),
    )
    workload = Workload(record, record.key, record.uid, record.priority)
    for condition in manifest["status"].get("conditions", ()):
        at = micros(condition["lastTransitionTime"])
        if condition["type"] == "Evicted":
            workload.last_evicted_at, workload.last_evicted_reason = at, condition["reason"]
        elif condition["type"] == "Preempted":
            workload.preempted_at, workload.preempted_rule = at, condition["reason"]
    workload.rank = (-workload.priority, queue_order_timestamp(workload, config), workload.uid)
    return workload
