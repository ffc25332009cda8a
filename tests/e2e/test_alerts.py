"""Alerts of a real cell in a real Prometheus.

The fault is made, the alert fires, what its runbook says to type tells why, and with the fault it goes.
"""

import asyncio
import json
import os
import shlex
import signal
from collections.abc import Callable, Iterator

import nats
import pytest

from tests.support.waiting import wait_until

from .test_up import command
from .watched_cell import CHECKED, ROOT, Cell, needs_prometheus, queue, submit, watched

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
    url = json.loads((cell.home / ".sluice/up.json").read_text())["url"]

    async def publish() -> None:
        client = await nats.connect(url)
        await client.jetstream().publish("sluice.main.job.default.rubbish", b"{}")
        await client.close()

    asyncio.run(publish())
    return lambda: None


FAULTS: dict[str, tuple[Callable[[Cell], Callable[[], object]], dict[str, str], str]] = {
    "SluiceExecutorLost": (_lost, {}, "Lost"),
    "SluiceDown": (_away, {}, "stopped"),
    "SluiceQueueInactive": (_inactive, {"QUEUE": "held"}, "Stopped"),
    "SluiceCheckSlow": (_unanswered, {"CHECK": "asked", "WORKLOAD": "asks"}, "asks"),
    "SluiceCheckWithoutController": (_uncontrolled, {"CHECK": "nobody"}, "nobody"),
    "SluiceMessagesRejected": (_refused, {}, "rubbish"),
}
"""Alert -> what makes its fault (and returns what mends it), names for its runbook, what that tells."""


@pytest.mark.parametrize("alert", FAULTS)
def test_an_alert_fires_and_its_runbook_tells_why(cell: Cell, alert: str) -> None:
    make, names, tells = FAULTS[alert]
    (cell.home / "checks.yaml").write_text(CHECKED)
    cell.run("apply", "-f", "checks.yaml")
    assert alert not in cell.firing()
    mend = make(cell)
    try:
        wait_until(lambda: alert in cell.firing())
        page = (ROOT / f"docs/runbooks/{alert}.md").read_text()
        said = ""
        for line in page.partition("```sh\n")[2].partition("```")[0].splitlines():
            words = [names.get(word, word) for word in shlex.split(line)[1:]]
            done = command(cell.home, *words)
            assert "Usage:" not in done.stderr, done.stderr
            said += done.stdout + done.stderr
        assert tells in said
    finally:
        mend()
    if alert != "SluiceMessagesRejected":  # which looks ten minutes back
        wait_until(lambda: alert not in cell.firing())


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
