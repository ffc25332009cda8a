"""Queues, cohorts and flavors at any moment as plain data: what there is of quota, and what is used."""

from typing import Any

from sluice.api.quantity import format_value
from sluice.core.views import cluster_queue_status
from sluice.core.views.quota_totals import cohort_totals, members, nominal_quota, queue_totals
from sluice.core.views.records import ClusterQueueView
from sluice.log.cell import CellState

from .queues import amounts

Plain = dict[str, Any]


def queue_plain(cell: CellState, queue: ClusterQueueView) -> Plain:
    """Return a cluster queue's numbers, without what only the scheduler can compute."""
    status = cluster_queue_status(cell.view, queue)
    active = status["conditions"][0]
    found: Plain = {
        "pending": status["pendingWorkloads"],
        "reserving": status["reservingWorkloads"],
        "admitted": status["admittedWorkloads"],
        "nominal": amounts(nominal_quota(queue)),
        **_used(cell, queue),
    }
    if active["status"] != "True":
        found["inactive"] = f"{active['reason']}: {active['message']}"
    return found


def _used(cell: CellState, queue: ClusterQueueView, flavor: str = "") -> Plain:
    """Return what the queue uses (of a flavor), and what it is promised beside that (AC6)."""
    totals = queue_totals(cell.view, queue)
    only_promised = {fr: n for fr, n in totals.promised.items() if flavor in ("", fr[0])}
    shown = [fr for fr in totals.reservation if flavor in ("", fr[0])]
    found: Plain = {"used": amounts({fr: totals.used(fr) for fr in shown})}
    return found | ({"promised": amounts(only_promised)} if only_promised else {})


def cohort_plain(cell: CellState, name: str) -> Plain:
    """Return what the cohort's subtree has and uses."""
    totals = cohort_totals(cell.view, name)
    spec = cell.view.cohorts.get(name)
    above = spec.parent_name if spec is not None else ""
    return {
        **({"parent": above} if above else {}),
        "clusterQueues": [queue.name for queue in members(cell.view, name)],
        "nominal": {f"{f}/{r}": format_value(r, n) for (f, r), n in totals.nominal.items()},
        "used": {f"{f}/{r}": format_value(r, totals.used((f, r))) for f, r in totals.rows()},
        **({"promised": amounts(totals.promised)} if totals.promised else {}),
    }


def flavor_plain(cell: CellState, name: str) -> Plain:
    """Return who offers a flavor, and how much of it each of them has and uses."""
    queues: Plain = {}
    for queue in cell.view.cluster_queues.values():
        nominal = {fr: n for fr, n in nominal_quota(queue).items() if fr[0] == name}
        if nominal:
            queues[queue.name] = {"nominal": amounts(nominal), **_used(cell, queue, name)}
    return {"clusterQueues": queues}


__all__ = ["queue_plain"]
