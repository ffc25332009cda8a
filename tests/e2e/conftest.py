"""One running cell for a module (server, api, scheduler, slice-aggregator), and the command against it."""

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from sluice.cli.main import main
from tests.support.system import System
from tests.support.waiting import wait_until


@dataclass(frozen=True)
class Said:
    """What one call of the command line did."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def ok(self) -> "Said":
        assert self.code == 0, f"exit {self.code}\n{self.out}\n{self.err}"
        return self


def sluice(*arguments: str, stdin: str = "", env: dict[str, str] | None = None) -> Said:
    """Run the command in this process."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    given = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        patch.object(sys, "stdin", given),
        patch.dict(os.environ, env or {}),
    ):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    return Said(code, out.getvalue(), err.getvalue())


Sluice = Callable[..., Said]


def all_lead(system: System) -> bool:
    """Whether each of the four services that decide has a leader."""
    said = sluice("status", "-o", "json", env={"SLUICE_NATS_URL": system.url})
    return said.code == 0 and sum(service["role"] == "leader" for service in said.json["services"]) == 4


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with System(tmp_path_factory.mktemp("cell")) as system:
        for service in ("api", "slice_aggregator", "variant_controller", "scheduler", "admission_check"):
            system.start(service)
        with system.logs_of_failures():
            wait_until(lambda: all_lead(system))
        yield system


@pytest.fixture
def run(cell: System) -> Sluice:
    """The command, against the module's cell."""
    return lambda *arguments, stdin="": sluice(*arguments, stdin=stdin, env={"SLUICE_NATS_URL": cell.url})


def queue_yaml(name: str, cpu: int = 2, namespace: str = "default", flavor: str = "") -> str:
    """Return a flavor, a cluster queue and a local queue of one name."""
    flavor = flavor or f"{name}-flavor"
    return f"""
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: {flavor}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}, labels: {{test: {name}}}}}
spec:
  namespaceSelector: {{}}
  preemption: {{withinClusterQueue: LowerPriority}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: {flavor}
      resources:
      - {{name: cpu, nominalQuota: {cpu}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{clusterQueue: {name}}}
"""
