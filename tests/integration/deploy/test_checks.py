"""The shipped checks as they are deployed: users of their own, manifests that agree with them."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluice.cli.commands.cell.supervisor import SHIPPED_CHECKS
from sluice.rights.roles import User
from sluice.services.check_budget.config import CONTROLLER as BUDGET
from sluice.services.check_provisioning.config import CONTROLLER as PROVISIONING
from sluice.services.check_webhook.config import CONTROLLER as WEBHOOK
from tests.support.waiting import PATIENCE_S, wait_until

from .secured import ROOT, SERVICES, SecuredCell

CONTROLLERS = {"budget": BUDGET, "webhook": WEBHOOK, "provisioning": PROVISIONING}
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "checks.compose.yml").read_text())


def added(check: str) -> User:
    """Return the user that the manifests count on."""
    if CONTROLLERS[check] == BUDGET:
        return User(name="check_budget", role="service")
    return User(name=f"check_{check}", role="controller", controller=CONTROLLERS[check])


@pytest.mark.parametrize("check", SHIPPED_CHECKS)
def test_manifests_agree(check: str) -> None:
    """Compose file and Kubernetes manifest start the same service, with the key of the user of its name."""
    (worker,) = yaml.safe_load_all((DEPLOY / f"kubernetes/checks/{check}.yaml").read_text())
    (one,) = worker["spec"]["template"]["spec"]["containers"]
    composed = COMPOSE["services"][f"check_{check}"]
    assert one["command"] == composed["command"] == ["python", "-m", f"sluice.services.check_{check}"]
    assert (ROOT / f"services/check_{check}/__main__.py").is_file()
    assert f"${{SLUICE_AUTH:-./deploy/auth}}/keys/check_{check}:/etc/sluice/key:ro" in composed["volumes"]
    assert {"name": "key", "mountPath": "/etc/sluice/key", "readOnly": True} in one["volumeMounts"]
    volumes = {volume["name"]: volume for volume in worker["spec"]["template"]["spec"]["volumes"]}
    assert volumes["key"]["secret"]["secretName"] == f"key-check-{check}"
    kustomization = (DEPLOY / "kustomization.yaml").read_text()
    assert f"# - kubernetes/checks/{check}.yaml" in kustomization
    files = f"files: [auth/keys/check_{check}/key.nk, auth/keys/check_{check}/ca.pem]"
    assert re.search(rf"# - name: key-check-{check}\n# .*\n#   {re.escape(files)}", kustomization)
    for text in (DEPLOY / "checks.compose.yml", DEPLOY / f"kubernetes/checks/{check}.yaml"):
        command = f"auth add check_{check} --role controller"
        assert command in text.read_text()
        assert CONTROLLERS[check] in text.read_text()


MANIFESTS = """
apiVersion: sluice.dev/v1alpha1
kind: Budget
metadata: {name: all}
spec: {scope: {clusterQueue: q}, limits: {resourceHours: [{resource: cpu, hours: 0}]}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: budget}
spec: {controllerName: sluice.dev/budget}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: f}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: q}
spec:
  namespaceSelector: {}
  admissionChecksStrategy: {admissionChecks: [{name: budget}]}
  resourceGroups:
  - {coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 1}]}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: q, namespace: default}
spec: {clusterQueue: q}
"""


@pytest.mark.nats
def test_each_works_as_its_own_user(tmp_path: Path) -> None:
    """Nothing that they do is refused, the budget check's snapshots included."""
    with SecuredCell(tmp_path / "cell", users=[added(check) for check in CONTROLLERS]) as cell:
        for name in SERVICES:
            cell.service(name)
        for check in CONTROLLERS:
            more = {"CHECK_BUDGET_SNAPSHOT_ENTRIES": "3"} if check == "budget" else {}
            cell.service(f"check_{check}", **more)
        manifests = tmp_path / "q.yaml"
        manifests.write_text(MANIFESTS)
        deadline = time.monotonic() + PATIENCE_S
        while (applied := cell.sluice("admin", "apply", "-f", str(manifests))).code:
            assert time.monotonic() < deadline, applied.err
        job = ("submit", "-q", "q", "--name", "held", "--cpu", "1", "--", "true")
        assert cell.sluice("admin", *job).code == 0

        def message() -> bool:
            found = json.loads(cell.sluice("viewer", "get", "workloads", "-o", "json").out)
            return "Budget 'all' is used up: 0.000 of 0.000 h of cpu used" in json.dumps(found)

        wait_until(message)
        wait_until(lambda: "snapshot stored" in (cell.directory / "check_budget.log").read_text())
        budget = json.loads(cell.sluice("viewer", "get", "budget", "all", "-o", "json").out)
        assert budget["status"]["usedUp"] is True
        assert budget["status"]["held"] == 1
        for check in CONTROLLERS:
            wait_until(lambda c=check: '"active"' in (cell.directory / f"check_{c}.log").read_text())
        assert [line for line in cell.violations() if line.startswith("check_")] == []
