"""A cell of `sluice up` that a real Prometheus looks at every half second."""

import contextlib
import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from sluice.local.processes import free_port
from tests.support.waiting import wait_until

from .conftest import queue_yaml
from .test_up import command

ROOT = Path(__file__).parents[2]
PROMETHEUS = shutil.which("prometheus")

needs_prometheus = pytest.mark.skipif(
    PROMETHEUS is None, reason="Prometheus, which Debian has as `prometheus`, is not installed"
)

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

HIGH = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: high}
value: 100
"""


class Cell:
    """A cell in a directory, and a Prometheus that looks every half second, without the alerts' patience."""

    def __init__(self, home: Path, api: str) -> None:
        self.home, self.api = home, api

    def try_run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return command(self.home, *words)

    def run(self, *words: str) -> str:
        said = self.try_run(*words)
        assert said.returncode == 0, said.stdout + said.stderr
        return said.stdout

    def pid(self, label: str) -> int:
        told = json.loads(command(self.home, "status", "-o", "json").stdout)
        return int(next(row["pid"] for row in told["processes"] if row["label"] == label))

    def url(self) -> str:
        """Return the address of the cell's NATS server."""
        return str(json.loads((self.home / ".sluice/up.json").read_text())["url"])

    def firing(self) -> dict[str, dict[str, str]]:
        """Return the alerts that fire, with their labels."""
        with urllib.request.urlopen(f"{self.api}/api/v1/alerts", timeout=10) as answer:
            alerts = json.load(answer)["data"]["alerts"]
        return {each["labels"]["alertname"]: each["labels"] for each in alerts if each["state"] == "firing"}

    def value(self, expression: str) -> list[Any]:
        return self._result("query", query=expression)

    def over_time(self, expression: str, begin: float, end: float, step: float) -> list[Any]:
        """Return the series of a query between two times (Unix), with a value each *step* seconds."""
        return self._result("query_range", query=expression, start=begin, end=end, step=step)

    def exemplars(self, metric: str) -> list[Any]:
        """Return what Prometheus has kept of exemplars in the last hour, by series."""
        now = time.time()
        return self._asked("query_exemplars", query=metric, start=now - 3600, end=now)

    def _result(self, way: str, **asked: object) -> list[Any]:
        return list(self._asked(way, **asked)["result"])

    def _asked(self, way: str, **asked: object) -> Any:
        address = f"{self.api}/api/v1/{way}?{urlencode(asked)}"
        with urllib.request.urlopen(address, timeout=60) as answer:
            return json.load(answer)["data"]


@contextlib.contextmanager
def watched(home: Path) -> Iterator[Cell]:
    """Run one in *home*."""
    said = command(home, "up", "--detach", "--agents", "2", "--timeout", "60")
    assert said.returncode == 0, said.stderr
    console = re.search(r"Console: http://(\S+)/", said.stdout)
    assert console is not None
    rules = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text())
    for rule in rules["groups"][0]["rules"]:
        rule["for"] = "0s"
        rule["expr"] = re.sub(r"\[\d+m\]", "[20s]", rule["expr"])
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
                "--enable-feature=exemplar-storage",
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


def queue(cell: Cell, name: str, check: str = "", **more: str) -> None:
    spec = f"  admissionChecksStrategy: {{admissionChecks: [{{name: {check}}}]}}\n" if check else ""
    spec += "".join(f"  {key}: {value}\n" for key, value in more.items())
    text = queue_yaml(name).replace("  namespaceSelector: {}\n", f"  namespaceSelector: {{}}\n{spec}")
    (cell.home / f"{name}.yaml").write_text(text)
    cell.run("apply", "-f", f"{name}.yaml")


def submit(cell: Cell, name: str, queue: str) -> None:
    cell.run("submit", "-q", queue, "--name", name, "--", "sleep", "600")


def plain_job(
    name: str, queue: str, seconds: float, priority_class: str = "", cpu: int = 1
) -> dict[str, object]:
    """Return the manifest of a job that sleeps."""
    spec = {"queueName": queue, "command": ["sleep", str(seconds)], "resources": {"cpu": cpu}}
    if priority_class:
        spec["priorityClassName"] = priority_class
    return {"apiVersion": "sluice.dev/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
