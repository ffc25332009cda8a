"""A log of a cell with a budget: two queues' jobs run for a while, one after the other.

python -m tests.unit.console.budget_log FILE        writes it as an exported log
"""

import sys
from pathlib import Path

from sluice.log.contract import Entry
from sluice.protocol.subjects import presence_suffix
from sluice.replay.source.log_file import Header, Writer
from tests.support.family_world import FamilyWorld, cell, cluster_queue
from tests.support.objects import local_queue

NAME = "research"
MANIFEST = {
    "apiVersion": "sluice.dev/v1alpha1",
    "kind": "Budget",
    "metadata": {"name": NAME},
    "spec": {
        "scope": {"clusterQueue": "main"},
        "period": {"unit": "Weekly"},
        "limits": {"cost": "100", "resourceHours": [{"resource": "cpu", "hours": 500}]},
        "currency": "EUR",
        "prices": [{"resource": "cpu", "perHour": "3.60"}],
    },
}


def world() -> FamilyWorld:
    """A core costs a tenth of a cent per second; two queues, one job still runs, one is too large."""
    found = cell(cluster_queue({"res": 8}, {}), MANIFEST)
    found.message(presence_suffix("agent", "one"), "Seen", {})
    found.apply(local_queue("second")).settle_all()
    for name, queue, cpu, seconds in (("a", "main", 2, 600), ("b", "second", 4, 1800), ("c", "main", 1, 900)):
        found.submit(name, cpu, queue=queue).settle_all()
        found.settle_all(seconds)
        if name != "c":
            found.report(name, "JobFinished", success=True).settle_all()
    found.submit("large", 16).settle_all()
    return found


def entries() -> list[Entry]:
    return world().log


if __name__ == "__main__":
    with Path(sys.argv[1]).open("wb") as file:
        writer = Writer(file, Header(cell="main", source="test"))
        writer.add(tuple(entries()))
        writer.finish()
