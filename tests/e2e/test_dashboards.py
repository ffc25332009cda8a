"""Every panel of every dashboard shows something of a cell under load, in a real Prometheus.

The load is made of the examples: jobs wait, race, migrate, preempt, grow, are checked, fail and are refused.
"""

import asyncio
import json
import math
from collections.abc import Callable, Iterator

import nats
import pytest
import yaml

from tests.support.otlp import collector
from tests.support.waiting import wait_until
from tests.unit.docs.dashboards import panels

from .watched_cell import CHECKED, ROOT, Cell, needs_prometheus, queue, submit, watched

pytestmark = [pytest.mark.nats, pytest.mark.long, needs_prometheus]

RACING = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: high}
value: 100
---
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


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    with watched(tmp_path_factory.mktemp("dashboards")) as found:
        (found.home / "racing.yaml").write_text(CHECKED + "---" + RACING)
        found.run("apply", "-f", "racing.yaml")
        yield found


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
    url = json.loads((cell.home / ".sluice/up.json").read_text())["url"]

    async def publish() -> None:
        client = await nats.connect(url)
        await client.jetstream().publish("sluice.main.job.default.rubbish", b"{}")
        await client.close()

    asyncio.run(publish())


def shows(cell: Cell, query: str) -> bool:
    """Tell whether the query has a series with a number."""
    for name, value in {"$queue": ".*", "$__rate_interval": "2m"}.items():
        query = query.replace(name, value)
    return any(math.isfinite(float(series["value"][1])) for series in cell.value(query))


def test_every_panel_shows_something_of_a_cell_under_load(cell: Cell) -> None:
    lacking = {(board, panel.title, query) for board, _, panel in panels() for query in panel.queries}
    assert len(lacking) > 50
    load: list[Callable[[Cell], None]] = [borrow, grow, refuse]
    for make in load:
        make(cell)
    if not cell.value("sluice_migrations_total > 0"):
        race(cell)
    count = 0

    def all_show() -> bool:
        nonlocal count
        count += 1
        for name, words in {"works": ["true"], "fails": ["false"]}.items():
            cell.run("submit", "-q", "elastic", "--name", f"{name}-{count}", "--", *words)
        lacking.difference_update([each for each in lacking if shows(cell, each[2])])
        return not lacking

    try:
        wait_until(all_show)
    except AssertionError as error:
        raise AssertionError(f"{error}; nothing is shown by {sorted(lacking)}") from error


def test_a_job_of_real_services_is_a_trace(cell: Cell) -> None:
    """Through variants, a check, a migration and a preemption, sent to a collector while the cell runs."""
    if not cell.value("sluice_migrations_total > 0"):
        race(cell)
    with collector() as found:
        cell.run("replay", "traces", "train", "--otlp", found.url)
    spans = sorted(found.spans(), key=lambda span: span.start_time_unix_nano)
    said = [
        {a.key: a.value.string_value for a in span.attributes} for span in spans if span.name == "attempt"
    ]
    assert [(each["sluice.flavors"], each.get("sluice.attempt.stopped")) for each in said] == [
        ("od", "migrated"),
        ("res", "preempted"),
        ("od", None),
    ]
    names = [span.name for span in spans]
    assert names.count("check") == 3
    assert names.count("migration") == 1
    assert names.count("workload") == 2
    [preempted] = [span for span in spans if span.name == "attempt" and span.links]
    assert {a.value.string_value for a in preempted.links[0].attributes} >= {"default/urgent"}
    assert len({span.trace_id for span in spans}) == 1
