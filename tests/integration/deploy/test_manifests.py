"""Kubernetes manifests and the compose file agree with the users, the image and each other."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from .secured import NATS, ROOT, USERS

DEPLOY = ROOT / "deploy"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def manifests() -> Iterator[dict[str, Any]]:
    for path in KUSTOMIZATION["resources"]:
        yield from yaml.safe_load_all((DEPLOY / path).read_text())


WORKERS = [m for m in manifests() if m["kind"] in ("Deployment", "StatefulSet")]


def container(worker: dict[str, Any]) -> dict[str, Any]:
    (only,) = worker["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = only
    return found


def test_every_manifest_is_listed() -> None:
    """No file of the folder is forgotten, none is missing."""
    found = {f"kubernetes/{path.name}" for path in (DEPLOY / "kubernetes").glob("*.yaml")}
    assert found == set(KUSTOMIZATION["resources"])


def test_passwords_are_those_of_the_users() -> None:
    """new-passwords, users.conf, the manifests and the compose file name the same users."""
    made = subprocess.run(
        ["sh", "deploy/new-passwords"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = {line.partition("=")[0] for line in made.stdout.splitlines()}
    assert names == {f"SLUICE_{user.upper()}_PASSWORD" for user in USERS}
    assert set(re.findall(r"password: \$(\w+)", (NATS / "users.conf").read_text())) == names
    assert set(COMPOSE["services"]["nats"]["environment"]) == names
    for worker in WORKERS:
        for variable in container(worker).get("env", ()):
            if "secretKeyRef" in variable.get("valueFrom", {}):
                assert variable["valueFrom"]["secretKeyRef"]["key"] in names


@pytest.mark.parametrize("worker", WORKERS, ids=lambda w: w["metadata"]["name"])
def test_workers_are_complete(worker: dict[str, Any]) -> None:
    """Selectors match, nothing runs as root, config maps exist, and the image is pinned in one place."""
    spec, pod = worker["spec"], worker["spec"]["template"]
    assert spec["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    one = container(worker)
    assert ":" not in one["image"]
    assert one["image"] in {image["name"] for image in KUSTOMIZATION["images"]}
    known = {generated["name"] for generated in KUSTOMIZATION["configMapGenerator"]}
    used = {s["configMapRef"]["name"] for s in one["envFrom"] if "configMapRef" in s}
    used |= {v["configMap"]["name"] for v in pod["spec"].get("volumes", ()) if "configMap" in v}
    assert used <= known


def services() -> list[dict[str, Any]]:
    return [worker for worker in WORKERS if container(worker)["image"] == "sluice"]


@pytest.mark.parametrize("worker", services(), ids=lambda w: w["metadata"]["name"])
def test_services_log_in_as_themselves(worker: dict[str, Any]) -> None:
    """A service exists, uses the user of its own name, and its probes find it."""
    one = container(worker)
    module = one["command"][-1].removeprefix("sluice.services.")
    assert (ROOT / "services" / module / "__main__.py").is_file()
    env = {variable["name"]: variable for variable in one["env"]}
    assert env["SLUICE_NATS_URL"]["value"] == f"nats://{module}:$(PASSWORD)@nats:4222"
    assert "AGENT_NAME" in env if module == "agent" else "SLUICE_INSTANCE" in env
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        if probe in one:
            assert one[probe]["exec"]["command"][:3] == ["python", "-m", "sluice.log.runtime.healthcheck"]
    composed = COMPOSE["services"][module]
    assert composed["command"] == one["command"]
    assert composed["environment"]["SLUICE_NATS_URL"].startswith(f"nats://{module}:")


def test_runtime_lock_is_what_runs_need() -> None:
    """The image gets the project's dependencies and theirs, with hashes, and no tool of development."""
    command = [sys.executable, "deploy/runtime_lock.py", "requirements.lock", "pyproject.toml"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    blocks = re.split(r"(?m)^(?=[A-Za-z0-9])", made)[1:]
    names = {re.split(r"[=\s]", block)[0] for block in blocks}
    assert {"msgspec", "nats-py", "markdown-it-py"} <= names
    assert not names & {"pytest", "mypy", "ruff", "hypothesis", "setuptools", "testcontainers"}
    assert all("--hash=sha256:" in block for block in blocks)
