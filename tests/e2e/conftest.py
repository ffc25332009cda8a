"""One running cell for a module (server, api, scheduler, slice-aggregator), and the command against it."""

from collections.abc import Iterator

import pytest

from tests.support.command import Sluice, sluice
from tests.support.system import System
from tests.support.waiting import wait_until


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
