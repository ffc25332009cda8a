"""The shipped checks on a real cell: budget, webhook and provisioning hold and release real jobs."""

import json
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Said, sluice
from tests.support.system import ROOT, System
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.nats

EXAMPLES = ROOT / "examples/checks"
SECRET = "correct horse battery staple"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Shop:
    """A cell with the three checks, a capacity provider and a webhook, each a process."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.provider, self.webhook = free_port(), free_port()
        (system.directory / "secrets").mkdir()
        secret = system.directory / "secrets/approvals"
        secret.write_text(SECRET)
        for service in ("api", "slice_aggregator", "variant_controller", "scheduler", "admission_check"):
            system.start(service)
        work = {"AGENT_NAME": "one", "AGENT_WORK_DIR": str(system.directory / "work"), "AGENT_GRACE_S": "1"}
        system.start("agent", work)
        system.start("check_budget")
        system.start("check_webhook", {"CHECK_WEBHOOK_SECRETS_DIR": str(secret.parent)})
        url = f"http://127.0.0.1:{self.provider}"
        system.start(
            "check_provisioning",
            {
                "CHECK_PROVISIONING_URL": url,
                "CHECK_PROVISIONING_POLL_S": "0.1",
                "CHECK_PROVISIONING_ON_REVOKED": "Retry",
            },
        )
        script = str(EXAMPLES / "provisioning/provider.py")
        system.start("provider", command=(script, "--port", str(self.provider), "--delay", "0.2"))
        script = str(EXAMPLES / "webhook/approver.py")
        system.start("approver", command=(script, "--port", str(self.webhook), "--secret-file", str(secret)))

    def run(self, *arguments: str, stdin: str = "") -> Said:
        return sluice(*arguments, stdin=stdin, env={"SLUICE_NATS_URL": self.system.url})

    def apply(self, *manifests: dict[str, Any]) -> Said:
        return self.run("apply", "-f", "-", stdin="\n---\n".join(map(json.dumps, manifests)))

    def http(self, port: int, path: str, body: Any = None) -> bytes:
        """Ask one of our two servers; GET without a body."""
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data, timeout=PATIENCE_S) as answer:
            found: bytes = answer.read()
            return found

    def queue(self, name: str, controller: str, parameters: dict[str, Any], spec: dict[str, Any]) -> None:
        """Make a queue with one check of a controller, and the check's parameters."""
        kueue, group = "kueue.x-k8s.io/v1beta2", parameters["apiVersion"].partition("/")[0]
        reference = {"apiGroup": group, "kind": parameters["kind"], "name": name}
        quota = {"name": f"{name}-flavor", "resources": [{"name": "cpu", "nominalQuota": 4}]}
        objects: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
            ("ResourceFlavor", {"name": f"{name}-flavor"}, {}),
            ("AdmissionCheck", {"name": name}, {"controllerName": controller, "parameters": reference}),
            (
                "ClusterQueue",
                {"name": name},
                {
                    "namespaceSelector": {},
                    "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
                    "admissionChecksStrategy": {"admissionChecks": [{"name": name}]},
                },
            ),
            ("LocalQueue", {"name": name, "namespace": "default"}, {"clusterQueue": name}),
        )
        self.apply(
            {**parameters, "metadata": {"name": name}, "spec": spec},
            *({"apiVersion": kueue, "kind": kind, "metadata": m, "spec": s} for kind, m, s in objects),
        ).ok()

    def submit(self, queue: str, name: str, script: str) -> str:
        self.run("submit", "-q", queue, "--name", name, "--cpu", "1", "--", "sh", "-c", script).ok()
        return name

    def job(self, name: str) -> dict[str, Any]:
        return dict(self.run("get", "job", name, "-o", "json").ok().json.get("status") or {})

    def message(self, job: str) -> str:
        """Return what the job's only check says."""
        workload = self.wait(lambda: self.job(job).get("workload"))
        found = self.run("get", "workload", workload, "-o", "json").ok().json["status"]
        return " ".join(each.get("message", "") for each in found.get("admissionChecks", ()))

    def is_in(self, job: str, *phases: str) -> None:
        self.wait(lambda: self.job(job).get("phase") in phases)

    def says(self, job: str, text: str) -> None:
        self.wait(lambda: text in self.message(job) or (self.message(job) and None))

    def wait(self, condition: Any) -> Any:
        try:
            return wait_until(condition)
        except AssertionError as error:
            text = self.run("log", "tail", "--no-follow", "-n", "40").out
            raise AssertionError(f"{error}\n{text}\n{self.system.tail_logs(8)}") from error


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with System(tmp_path_factory.mktemp("shop")) as system:
        made = Shop(system)
        with system.logs_of_failures():
            wait_until(lambda: made.run("get", "cq").code == 0)
            wait_until(lambda: all(map(_is_served, (made.provider, made.webhook))))
        yield made


def _is_served(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()
    except ConnectionRefusedError:
        return False
    return True


AGAIN = 'test "$SLUICE_ATTEMPT" -gt 1 || sleep 600'
"""A job whose first start would go on for longer than any test."""
BUDGET = {"apiVersion": "sluice.dev/v1alpha1", "kind": "Budget"}
WEBHOOK = {"apiVersion": "sluice.dev/v1alpha1", "kind": "WebhookCheckConfig"}
PROVISIONING = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ProvisioningRequestConfig"}


def test_a_budget_holds_releases_and_evicts(shop: Shop) -> None:
    """Held while it is used up, let in when it is raised, stopped when it is used up while running."""
    spec: dict[str, Any] = {
        "scope": {"clusterQueue": "money"},
        "period": {"unit": "Weekly", "timeZone": "Europe/Berlin"},
        "limits": {"cost": 0},
        "currency": "EUR",
        # A core costs 1 EUR per second.
        "prices": [{"resource": "cpu", "perHour": 3600}],
        "onExceeded": "Evict",
        "retryAfterSeconds": 1,
    }
    shop.queue("money", "sluice.dev/budget", BUDGET, spec)
    job = shop.submit("money", "spender", AGAIN)
    shop.is_in(job, "QuotaReserved")
    shop.says(job, "Budget 'money' is used up: 0.00 of 0.00 EUR used; the period ends ")
    assert not shop.job(job).get("attempts")
    text = shop.run("get", "budget", "money").ok().out
    assert "0.00 EUR   0.00 EUR" in text

    def limit(cost: int) -> None:
        changed = {**spec, "limits": {"cost": cost}}
        shop.apply({**BUDGET, "metadata": {"name": "money"}, "spec": changed}).ok()

    # It runs, and three seconds later the budget is used up: it is stopped, and held when it comes back.
    limit(3)
    shop.wait(lambda: shop.job(job).get("evictions"))
    shop.says(job, "Budget 'money' is used up: ")
    text = shop.run("describe", "job", job).ok().out
    assert "AdmissionCheck" in text

    # A new life of the service computes the same from the log.
    (service,) = shop.system.live("check_budget")
    shop.system.kill(service)
    shop.system.start("check_budget")
    shop.says(job, "Budget 'money' is used up: ")
    limit(1_000_000)
    shop.is_in(job, "Succeeded")
    # People see what the check judges by; without it they see that nobody knows.
    (limits,) = shop.run("get", "budget", "money", "-o", "json").ok().json["status"]["limits"]
    assert 3 <= float(limits["used"]) < 60
    assert float(limits["used"]) + float(limits["left"]) == 1_000_000
    text = shop.run("describe", "budget", "money").ok().out
    assert "Period ends:" in text
    assert "1000000.00 EUR" in text
    (service,) = shop.system.live("check_budget")
    shop.system.kill(service)
    assert "<unknown>" in shop.run("get", "budgets").ok().out
    assert "the budget check did not answer" in shop.run("describe", "budget", "money").ok().out
    shop.system.start("check_budget")


def test_a_webhook_holds_hangs_and_releases(shop: Shop) -> None:
    """What the endpoint says, and that it says nothing, is seen; its approval lets the job run."""
    spec = {
        "url": f"http://127.0.0.1:{shop.webhook}/review",
        "cancelUrl": f"http://127.0.0.1:{shop.webhook}/review",
        "signingSecret": "approvals",
        "timeoutSeconds": 1,
        "pollSeconds": 1,
        "recheckSeconds": 1,
        "retryStrategy": {"backoffLimitCount": 1000, "backoffBaseSeconds": 1, "backoffMaxSeconds": 1},
    }
    shop.queue("hooked", "sluice.dev/webhook", WEBHOOK, spec)
    job = shop.submit("hooked", "asker", "true")
    shop.is_in(job, "QuotaReserved")
    shop.says(job, "Nobody has approved it")
    shop.http(shop.webhook, "/say/asker", {"hang": True})
    shop.says(job, f"Webhook http://127.0.0.1:{shop.webhook}/review: no answer within 1 s; trying again")
    assert shop.job(job)["phase"] == "QuotaReserved"
    shop.http(shop.webhook, "/say/asker", {"state": "Ready", "message": "Ann has approved it"})
    shop.is_in(job, "Succeeded")
    shop.wait(lambda: "Cancel default/asker" in json.loads(shop.http(shop.webhook, "/asked")))

    # While it runs, the endpoint changes its mind, and changes it back.
    watched = shop.submit("hooked", "watched", AGAIN)
    shop.http(shop.webhook, "/say/watched", {"state": "Ready"})
    shop.is_in(watched, "Running")
    shop.http(
        shop.webhook, "/say/watched", {"state": "Retry", "requeueAfterSeconds": 1, "message": "not now"}
    )
    shop.wait(lambda: shop.job(watched).get("evictions"))
    assert "not now" in shop.run("describe", "job", watched).ok().out
    shop.http(shop.webhook, "/say/watched", {"state": "Ready"})
    shop.is_in(watched, "Succeeded")

    # Without the right secret nobody is let in.
    (Path(shop.system.directory) / "secrets/approvals").write_text("wrong")
    other = shop.submit("hooked", "other", "true")
    shop.says(other, "status 401: not signed by who may ask")


def test_provisioning_fails_retries_and_tells_pods_where_to_go(shop: Shop) -> None:
    """The first request fails, the second one gives machines; the job runs there, and they are given back."""
    spec = {
        "provisioningClassName": "queued",
        "retryStrategy": {"backoffLimitCount": 2, "backoffBaseSeconds": 1, "backoffMaxSeconds": 5},
        "podSetUpdates": {"nodeSelector": [{"key": "pool", "valueFromProvisioningClassDetail": "pool"}]},
    }
    shop.http(shop.provider, "/faults", ["fail", "ok"])
    shop.queue("machines", "kueue.x-k8s.io/provisioning-request", PROVISIONING, spec)
    job = shop.submit("machines", "builder", 'test "$SLUICE_NODE_LABEL_POOL" = pool-queued && sleep 1')
    shop.is_in(job, "Succeeded")

    name = f"default/{shop.job(job)['workload']}-machines"
    history = shop.wait(
        lambda: (
            (found := json.loads(shop.http(shop.provider, "/history")))
            and f"DELETE {name}-2" in found
            and found
        )
    )
    assert [line for line in history if line.startswith("POST")] == [
        f"POST {name}-1 fail",
        f"POST {name}-2 ok",
    ]
    assert f"DELETE {name}-1" in history
    assert json.loads(shop.http(shop.provider, "/v1/provisioningrequests")) == {"items": []}

    # Capacity that is taken away while the job runs: it is stopped, and asks anew.
    kept = shop.submit("machines", "kept", AGAIN)
    shop.is_in(kept, "Running")
    name = f"default/{shop.job(kept)['workload']}-machines"
    shop.http(shop.provider, f"/v1/provisioningrequests/{name}-1/CapacityRevoked", {})
    shop.wait(lambda: shop.job(kept).get("evictions"))
    shop.is_in(kept, "Succeeded")
    assert f"POST {name}-2 ok" in json.loads(shop.http(shop.provider, "/history"))
