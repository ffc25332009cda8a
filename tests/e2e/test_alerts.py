"""Alerts of a real cell in a real Prometheus.

The fault is made, the alert fires, what its runbook says to type tells why, and with the fault it goes.
"""

import asyncio
import json
import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import nats
import pytest

from sluice.sdk import Client
from tests.support.waiting import wait_until
from tests.unit.docs.metrics_page import ALERTS_SEEN as SEEN

from .test_up import command
from .watched_cell import CHECKED, HIGH, ROOT, Cell, needs_prometheus, plain_job, queue, submit, watched

pytestmark = [
    pytest.mark.nats,
    pytest.mark.long,
    needs_prometheus,
]


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    with watched(tmp_path_factory.mktemp("alerts")) as found:
        yield found


def _lost(cell: Cell) -> Callable[[], object]:
    pid = cell.pid("agent-2")
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def _away(cell: Cell) -> Callable[[], object]:
    pid = cell.pid("console")
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def _inactive(cell: Cell) -> Callable[[], object]:
    queue(cell, "held", stopPolicy="Hold")
    submit(cell, "waits", "held")
    return lambda: queue(cell, "held")


def _unanswered(cell: Cell) -> Callable[[], object]:
    queue(cell, "careful", "asked")
    submit(cell, "asks", "careful")
    return lambda: cell.run("check", "approve", "asks", "asked")


def _uncontrolled(cell: Cell) -> Callable[[], object]:
    """Who holds quota and waits for people is to be asked about by a controller that is not there, too."""
    queue(cell, "double", "asked")
    submit(cell, "held-up", "double")
    text = (cell.home / "double.yaml").read_text()
    (cell.home / "double.yaml").write_text(text.replace("[{name: asked}]", "[{name: asked}, {name: nobody}]"))
    cell.run("apply", "-f", "double.yaml")
    return lambda: cell.run("job", "delete", "held-up")


def _refused(cell: Cell) -> Callable[[], object]:
    async def publish() -> None:
        client = await nats.connect(cell.url())
        await client.jetstream().publish("sluice.main.job.default.rubbish", b"{}")
        await client.close()

    asyncio.run(publish())
    return lambda: None


def _contended(cell: Cell) -> Callable[[], object]:
    """One job takes the place of thirty."""
    (cell.home / "high.yaml").write_text(HIGH)
    queue(cell, "contested")
    text = (cell.home / "contested.yaml").read_text().replace("nominalQuota: 2", "nominalQuota: 30")
    (cell.home / "contested.yaml").write_text(text)
    cell.run("apply", "-f", "high.yaml", "-f", "contested.yaml")
    with Client(cell.url()) as client:
        client.submit_many([plain_job(f"low-{number}", "contested", 600) for number in range(30)])
        wait_until(lambda: cell.value('sluice_admitted_active_workloads{cluster_queue="contested"} == 30'))
        client.submit(plain_job("big", "contested", 600, "high", cpu=30))

    def mend() -> None:
        with Client(cell.url()) as client:
            for name in ("big", *(f"low-{number}" for number in range(30))):
                client.delete(name)

    return mend


class Fault(NamedTuple):
    text: str
    make: Callable[[Cell], Callable[[], object]]
    """Makes it, and returns what mends it."""
    names: dict[str, str]
    """For the words in capitals of its runbook."""
    tells: str
    """What the runbook's commands say then, among other things."""


FAULTS = {
    "SluiceExecutorLost": Fault("an agent is stopped (SIGSTOP)", _lost, {}, "Lost"),
    "SluiceDown": Fault("the console is stopped (SIGSTOP)", _away, {}, "stopped"),
    "SluiceQueueInactive": Fault(
        "a queue is held while a job waits", _inactive, {"QUEUE": "held"}, "Stopped"
    ),
    "SluiceCheckSlow": Fault(
        "nobody answers a check", _unanswered, {"CHECK": "asked", "WORKLOAD": "asks"}, "asks"
    ),
    "SluiceCheckWithoutController": Fault(
        "a check that has none is added while a job waits",
        _uncontrolled,
        {"CHECK": "nobody"},
        "nobody",
    ),
    "SluiceMessagesRejected": Fault("rubbish is published", _refused, {}, "rubbish"),
    "SluiceManyPreemptions": Fault("one job preempts thirty", _contended, {"JOB": "low-0"}, "big"),
}


@pytest.fixture(scope="module")
def seen() -> Iterator[dict[str, dict[str, str]]]:
    """What the tests have seen of each alert, for docs/metrics.md: `make alerts-table` writes it down."""
    found: dict[str, dict[str, str]] = {}
    yield found
    for alert, row in found.items():
        print(" | ".join([alert, *row.values()]))
    if os.environ.get("SLUICE_ALERTS_SEEN"):
        assert found.keys() == FAULTS.keys()
        SEEN.write_text(json.dumps({alert: found[alert] for alert in FAULTS}, indent=2) + "\n")


@pytest.mark.parametrize("alert", FAULTS)
def test_an_alert_fires_and_its_runbook_tells_why(
    cell: Cell, alert: str, seen: dict[str, dict[str, str]]
) -> None:
    fault = FAULTS[alert]
    (cell.home / "checks.yaml").write_text(CHECKED)
    cell.run("apply", "-f", "checks.yaml")
    assert alert not in cell.firing()
    mend, made = fault.make(cell), time.monotonic()
    try:
        wait_until(lambda: alert in cell.firing())
        fired = time.monotonic() - made
        page = (ROOT / f"docs/runbooks/{alert}.md").read_text()
        said, typed = "", []
        for line in page.partition("```sh\n")[2].partition("```")[0].splitlines():
            words = [fault.names.get(word, word) for word in shlex.split(line)[1:]]
            done = command(cell.home, *words)
            assert "Usage:" not in done.stderr, done.stderr
            said += done.stdout + done.stderr
            typed.append(" ".join(["sluice", *words]))
        assert fault.tells in said
    finally:
        mend()
    mended = time.monotonic()
    wait_until(lambda: alert not in cell.firing())
    seen[alert] = {
        "fault": fault.text,
        "fired": f"{fired:.1f} s",
        "typed": ", ".join(f"`{each}`" for each in typed),
        "told": fault.tells,
        "resolved": f"{time.monotonic() - mended:.1f} s",
    }


def test_every_metric_has_a_series(cell: Cell) -> None:
    """What the page says is there: each gauge has a series in Prometheus while a queue and a cohort are."""
    from sluice.readmodel.metrics import GAUGES

    (cell.home / "checks.yaml").write_text(CHECKED)
    cell.run("apply", "-f", "checks.yaml")
    (cell.home / "cohort.yaml").write_text(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {name: all}\nspec:\n  resourceGroups:\n"
        "  - coveredResources: [cpu]\n"
        "    flavors: [{name: any-flavor, resources: [{name: cpu, nominalQuota: 1}]}]\n"
    )
    queue(cell, "member", cohortName="all")
    text = (
        (cell.home / "member.yaml")
        .read_text()
        .replace("nominalQuota: 2", "nominalQuota: 2, borrowingLimit: 1, lendingLimit: 1")
    )
    (cell.home / "member.yaml").write_text(text)
    cell.run("apply", "-f", "member.yaml", "-f", "cohort.yaml")
    for n in range(4):
        submit(cell, f"member-{n}", "member")
    lacking = set(GAUGES)

    def all_are_there() -> bool:
        for name in list(lacking):
            if cell.value(f"sluice_{name}"):
                lacking.discard(name)
        return not lacking

    wait_until(all_are_there)
