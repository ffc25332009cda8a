"""Queues, cohorts and flavors at any moment as plain data: what there is of quota, and what is used."""

from collections.abc import Iterable
from typing import Any

from sluice.api.quantity import format_value
from sluice.core.views import cluster_queue_status, cohort_status
from sluice.core.views.holding import promised
from sluice.core.views.present.queue import members, nominal_quota
from sluice.core.views.records import ClusterQueueView
from sluice.core.workload.charges import add, subtract
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
    reserved = {fr: n for fr, n in queue.reservation.items() if flavor in ("", fr[0])}
    only_promised = {fr: n for fr, n in promised(cell.view, queue).items() if flavor in ("", fr[0])}
    found: Plain = {"used": amounts({fr: n - only_promised.get(fr, 0) for fr, n in reserved.items()})}
    return found | ({"promised": amounts(only_promised)} if only_promised else {})


def cohort_plain(cell: CellState, name: str) -> Plain:
    """Return what the cohort's subtree has and uses."""
    status = cohort_status(cell.view, name)
    spec = cell.view.cohorts.get(name)
    above = spec.parent_name if spec is not None else ""
    used: dict[tuple[str, str], int] = {}
    only_promised: dict[tuple[str, str], int] = {}
    for queue in members(cell.view, name):
        add(used, queue.reservation)
        add(only_promised, promised(cell.view, queue))
    subtract(used, only_promised)
    shown = [(f["name"], r["name"]) for f in status["flavorsReservation"] for r in f["resources"]]
    return {
        **({"parent": above} if above else {}),
        "clusterQueues": status["clusterQueues"],
        "nominal": _totals(status["nominalQuota"]),
        "used": {f"{f}/{r}": format_value(r, used.get((f, r), 0)) for f, r in shown},
        **({"promised": amounts(only_promised)} if only_promised else {}),
    }


def _totals(flavors: Iterable[Plain]) -> dict[str, str]:
    return {f"{f['name']}/{r['name']}": r["total"] for f in flavors for r in f["resources"]}


def flavor_plain(cell: CellState, name: str) -> Plain:
    """Return who offers a flavor, and how much of it each of them has and uses."""
    queues: Plain = {}
    for queue in cell.view.cluster_queues.values():
        nominal = {fr: n for fr, n in nominal_quota(queue).items() if fr[0] == name}
        if nominal:
            queues[queue.name] = {"nominal": amounts(nominal), **_used(cell, queue, name)}
    return {"clusterQueues": queues}


__all__ = ["queue_plain"]
