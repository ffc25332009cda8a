"""One running cell for a module (server, api, scheduler, slice-aggregator), and the command against it."""

import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from sluice.cli.main import main
from tests.system import System
from tests.waiting import PATIENCE_S


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


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with System(tmp_path_factory.mktemp("cell")) as system:
        for service in ("api", "slice_aggregator", "variant_controller", "scheduler", "admission_check"):
            system.start(service)
        deadline = time.monotonic() + PATIENCE_S
        env = {"SLUICE_NATS_URL": system.url}
        while True:
            said = sluice("status", "-o", "json", env=env)
            if said.code == 0 and len([s for s in said.json["services"] if s["role"] == "leader"]) == 4:
                break
            assert time.monotonic() < deadline, system.tail_logs()
            time.sleep(0.1)
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
