"""The order of nominated entries within a cycle, without fair sharing."""

from datetime import datetime
from typing import Any

from sluice.api import kueue
from sluice.core.cycle.entry import Ordering
from sluice.core.world.queue_order import queue_order_timestamp
from sluice.core.world.workload import Workload
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
    # All times are whole seconds from now, but conditions have lost the fraction on their way here.
    fraction_us = _precise(case["now"]) % 1_000_000
    keyed = []
    for index, entry in enumerate(case["input"]["entries"]):
        workload = _workload(entry, index, config, fraction_us)
        key = ordering.key(workload, entry["borrowing"], is_preemptor=entry["isPreemptor"])
        keyed.append((key, workload.record.name))
    compare([name for _, name in sorted(keyed)], case["expect"]["wantOrder"], "order")


def _precise(time: str) -> int:
    return int(datetime.fromisoformat(time[:26] + "+00:00").timestamp() * 1_000_000)


def _workload(entry: Json, index: int, config: kueue.ConfigurationSpec, fraction_us: int) -> Workload:
    manifest = entry["workload"]
    record = WorkloadRecord(
        namespace="",
        name=manifest["metadata"]["name"],
        uid=f"{index:04}",
        queue_name="",
        created_at=_precise(entry["creationTimestampNano"]),
        pod_sets=(),
        priority=int(manifest["spec"].get("priority") or 0),
    )
    workload = Workload(record, record.key, record.uid, record.priority)
    for condition in manifest["status"].get("conditions", ()):
        at = micros(condition["lastTransitionTime"]) + fraction_us
        if condition["type"] == "Evicted":
            workload.last_evicted_at, workload.last_evicted_reason = at, condition["reason"]
        elif condition["type"] == "Preempted":
            workload.preempted_at, workload.preempted_rule = at, condition["reason"]
    workload.rank = (-workload.priority, queue_order_timestamp(workload, config), workload.uid)
    return workload
