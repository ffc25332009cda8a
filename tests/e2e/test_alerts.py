"""Alerts of a real cell in a real Prometheus.

The fault is made, the alert fires, what its runbook says to type tells why, and with the fault it goes.
"""

import asyncio
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
import yaml

from sluice.local.processes import free_port
from tests.support.waiting import wait_until

from .conftest import queue_yaml
from .test_up import command

ROOT = Path(__file__).parents[2]
PROMETHEUS = shutil.which("prometheus")

pytestmark = [
    pytest.mark.nats,
    pytest.mark.long,
    pytest.mark.skipif(
        PROMETHEUS is None, reason="Prometheus, which Debian has as `prometheus`, is not installed"
    ),
]

CHECKED = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: asked}
spec: {controllerName: people.sluice.dev/ops}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: nobody}
spec: {controllerName: example.com/nobody}
"""


class Cell:
    """A cell in a directory, and a Prometheus that looks every half second, without the alerts' patience."""

    def __init__(self, home: Path, api: str) -> None:
        self.home, self.api = home, api

    def run(self, *words: str) -> str:
        said = command(self.home, *words)
        assert said.returncode == 0, said.stdout + said.stderr
        return said.stdout

    def pid(self, label: str) -> int:
        told = json.loads(command(self.home, "status", "-o", "json").stdout)
        return int(next(row["pid"] for row in told["processes"] if row["label"] == label))

    def firing(self) -> dict[str, dict[str, str]]:
        """Return the alerts that fire, with their labels."""
        with urllib.request.urlopen(f"{self.api}/api/v1/alerts", timeout=10) as answer:
            alerts = json.load(answer)["data"]["alerts"]
        return {each["labels"]["alertname"]: each["labels"] for each in alerts if each["state"] == "firing"}

    def value(self, expression: str) -> list[Any]:
        asked = f"{self.api}/api/v1/query?query={urllib.request.quote(expression)}"  # type: ignore[attr-defined]
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return list(json.load(answer)["data"]["result"])


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    home = tmp_path_factory.mktemp("alerts")
    said = command(home, "up", "--detach", "--agents", "2", "--timeout", "60")
    assert said.returncode == 0, said.stderr
    console = re.search(r"Console: http://(\S+)/", said.stdout)
    assert console is not None
    rules = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text())
    for rule in rules["groups"][0]["rules"]:
        rule["for"] = "0s"
    (home / "alerts.yaml").write_text(yaml.safe_dump(rules))
    scraped = {"job_name": "sluice", "static_configs": [{"targets": [console[1]]}]}
    config = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
        "rule_files": ["alerts.yaml"],
        "scrape_configs": [scraped],
    }
    (home / "prometheus.yaml").write_text(yaml.safe_dump(config))
    port = free_port(0)
    with contextlib.ExitStack() as stack:
        stack.callback(command, home, "down")
        assert PROMETHEUS is not None
        process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={home / 'prometheus.yaml'}",
                f"--storage.tsdb.path={home / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=stack.enter_context((home / "prometheus.log").open("w")),
        )
        stack.callback(process.wait)
        stack.callback(process.terminate)
        found = Cell(home, f"http://127.0.0.1:{port}")

        def is_up() -> bool:
            try:
                return bool(found.value('up{job="sluice"} == 1'))
            except OSError:
                return False

        wait_until(is_up)
        yield found


def _queue(cell: Cell, name: str, check: str = "", **more: str) -> None:
    spec = f"  admissionChecksStrategy: {{admissionChecks: [{{name: {check}}}]}}\n" if check else ""
    spec += "".join(f"  {key}: {value}\n" for key, value in more.items())
    text = queue_yaml(name).replace("  namespaceSelector: {}\n", f"  namespaceSelector: {{}}\n{spec}")
    (cell.home / f"{name}.yaml").write_text(text)
    cell.run("apply", "-f", f"{name}.yaml")


def _submit(cell: Cell, name: str, queue: str) -> None:
    cell.run("submit", "-q", queue, "--name", name, "--", "sleep", "600")


def _lost(cell: Cell) -> Callable[[], object]:
    pid = cell.pid("agent-2")
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def _away(cell: Cell) -> Callable[[], object]:
    pid = cell.pid("console")
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def _inactive(cell: Cell) -> Callable[[], object]:
    _queue(cell, "held", stopPolicy="Hold")
    _submit(cell, "waits", "held")
    return lambda: _queue(cell, "held")


def _unanswered(cell: Cell) -> Callable[[], object]:
    _queue(cell, "careful", "asked")
    _submit(cell, "asks", "careful")
    return lambda: cell.run("check", "approve", "asks", "asked")


def _uncontrolled(cell: Cell) -> Callable[[], object]:
    """Who holds quota and waits for people is to be asked about by a controller that is not there, too."""
    _queue(cell, "double", "asked")
    _submit(cell, "held-up", "double")
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
    _queue(cell, "member", cohortName="all")
    text = (
        (cell.home / "member.yaml")
        .read_text()
        .replace("nominalQuota: 2", "nominalQuota: 2, borrowingLimit: 1, lendingLimit: 1")
    )
    (cell.home / "member.yaml").write_text(text)
    cell.run("apply", "-f", "member.yaml", "-f", "cohort.yaml")
    for n in range(4):
        _submit(cell, f"member-{n}", "member")
    lacking = set(GAUGES)

    def all_are_there() -> bool:
        for name in list(lacking):
            if cell.value(f"sluice_{name}"):
                lacking.discard(name)
        return not lacking

    wait_until(all_are_there)
