"""A job that meets everything: variants, a check, a migration, a preemption; told by the deciders."""

import json

from tests.support.checked_cell import CheckedCell
from tests.support.family_world import cluster_queue, flavor, local_queue
from tests.support.objects import priority_class

SUBMITTER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def a_full_life() -> CheckedCell:
    """Return a cell whose job `train` starts on od, moves to res, is preempted there, and ends on od."""
    cell = CheckedCell()
    cell.apply(flavor("res"), flavor("od"), priority_class("high", 100))
    cell.add_check("approval")
    cell.presence("ctl-approval")
    policy = {"migration": {"mode": "TryPreferredFlavors"}}
    cell.apply(
        cluster_queue(
            {"res": 1, "od": 1},
            policy,
            admissionChecksStrategy={"admissionChecks": [{"name": "approval"}]},
            preemption={"withinClusterQueue": "LowerPriority"},
        ),
        local_queue(),
    )
    cell.settle()
    cell.submit("first").settle_all(1)
    approve(cell, "first")
    submit_traced(cell, "train").settle_all(1)
    approve(cell, "train")
    cell.report("train", "JobPodsReady").settle_all(5)
    cell.report("first", "JobFinished").settle_all(5)
    approve(cell, "train")
    cell.report("train", "JobPodsReady").settle_all(5)
    cell.submit("urgent", priority_class="high").settle_all(5)
    approve(cell, "urgent")
    approve(cell, "train")
    cell.report("train", "JobFinished").settle_all(7)
    cell.verify()
    return cell


def submit_traced(cell: CheckedCell, name: str, traceparent: str = SUBMITTER) -> CheckedCell:
    cell.submit(name)
    last = cell.log[-1]
    message = {**json.loads(last.payload), "traceparent": traceparent, "tracestate": "vendor=1"}
    cell.log[-1] = last._replace(payload=json.dumps(message).encode())
    return cell


def approve(cell: CheckedCell, name: str) -> None:
    """Let the check's controller say Ready of whatever of the job waits for it, then let time pass."""
    state = cell.services["checks"].state
    controller = state.checks["approval"].spec.controller_name
    for key, tracked in state.workloads.items():
        if key.startswith(f"default/job-{name}-") and tracked.reservation is not None:
            data = {"workload": key, "check": "approval", "attempt": tracked.attempts, "state": "Ready"}
            cell.message(f"verdict.{controller}", "CheckVerdict", data)
    cell.settle_all(3)
