"""Kubernetes manifests and the compose file agree with the users, the image and each other."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.command import sluice

from .secured import NATS, ROOT, SERVICES, USERS_FILE

DEPLOY = ROOT / "deploy"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
KEYED = (*SERVICES, "agent")
KEY_VARIABLES = {
    "SLUICE_NATS_URL": "tls://nats:4222",
    "SLUICE_CREDENTIALS": "/etc/sluice/key/key.nk",
    "SLUICE_CA": "/etc/sluice/key/ca.pem",
}


def manifests() -> Iterator[dict[str, Any]]:
    for path in KUSTOMIZATION["resources"]:
        yield from yaml.safe_load_all((DEPLOY / path).read_text())


WORKERS = [m for m in manifests() if m["kind"] in ("Deployment", "StatefulSet")]


def containers(worker: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = worker["spec"]["template"]["spec"]["containers"]
    return found


def volumes(worker: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return where the volumes of a pod come from, by where its containers see them."""
    pod = worker["spec"]["template"]["spec"]
    sources = {volume["name"]: volume for volume in pod.get("volumes", ())}
    sources |= {claim["metadata"]["name"]: {} for claim in worker["spec"].get("volumeClaimTemplates", ())}
    mounts = [mount for one in pod["containers"] for mount in one.get("volumeMounts", ())]
    return {mount["mountPath"]: sources[mount["name"]] for mount in mounts}


def test_every_manifest_is_listed() -> None:
    """No file of the folder is forgotten, none is missing."""
    found = {f"kubernetes/{path.name}" for path in (DEPLOY / "kubernetes").glob("*.yaml")}
    assert found == set(KUSTOMIZATION["resources"])


def test_there_are_no_passwords() -> None:
    """Neither in what is deployed, nor in the environment of anybody."""
    files = [*DEPLOY.glob("*"), *DEPLOY.glob("nats/*"), *DEPLOY.glob("kubernetes/**/*.yaml")]
    for path in (ROOT / "docker-compose.yml", *(path for path in files if path.is_file())):
        if path.name != "new-keys":
            assert "password" not in path.read_text().lower(), path
    for worker in WORKERS:
        for one in containers(worker):
            assert not [v for v in one.get("env", ()) if "secretKeyRef" in v.get("valueFrom", {})]
            assert not [source for source in one.get("envFrom", ()) if "secretRef" in source]


def test_each_secret_is_its_owners_key() -> None:
    """One secret for each program, made of the folder of its name; a change of it has no new name."""
    generated = {one["name"]: one for one in KUSTOMIZATION["secretGenerator"]}
    assert generated.keys() == {"nats-server", *(f"key-{name.replace('_', '-')}" for name in KEYED)}
    for name in KEYED:
        files = [f"auth/keys/{name}/key.nk", f"auth/keys/{name}/ca.pem"]
        assert generated[f"key-{name.replace('_', '-')}"]["files"] == files
    public = next(one for one in KUSTOMIZATION["configMapGenerator"] if one["name"] == "sluice-public")
    for one in (*generated.values(), public):
        assert one["options"] == {"disableNameSuffixHash": True}
    config = next(one for one in KUSTOMIZATION["configMapGenerator"] if one["name"] == "sluice-config")
    assert dict(line.split("=") for line in config["literals"]).items() >= KEY_VARIABLES.items()


def test_the_server_finds_its_users() -> None:
    """Configuration, users and certificate are where the one names the other, in both layouts."""
    config = "/etc/nats/config/nats-server.conf"
    assert f'include "{USERS_FILE}"' in (NATS / "nats-server.conf").read_text()
    users = os.path.normpath(Path(config).parent / USERS_FILE)
    assert users == "/etc/nats/auth/public/users.conf"
    assert "--server-dir /etc/nats/auth" in (DEPLOY / "new-keys").read_text()
    assert "--server-dir /etc/nats/auth" in (DEPLOY / "kustomization.yaml").read_text()
    (server,) = (worker for worker in WORKERS if worker["metadata"]["name"] == "nats")
    seen = volumes(server)
    assert seen["/etc/nats/auth/public"]["configMap"]["name"] == "sluice-public"
    assert seen["/etc/nats/auth/server"]["secret"]["secretName"] == "nats-server"
    nats, reload = containers(server)
    assert nats["args"] == ["--config", config, "--pid", "/run/nats/nats.pid"]
    assert reload["command"][-4:] == ["--dir", "/etc/nats/auth", "--server-pid", "/run/nats/nats.pid"]
    assert server["spec"]["template"]["spec"]["shareProcessNamespace"] is True
    composed = COMPOSE["services"]["nats"]
    assert composed["command"] == ["--config", config]
    folders = ("public", "server")
    wanted = {f"${{SLUICE_AUTH:-./deploy/auth}}/{one}:/etc/nats/auth/{one}:ro" for one in folders}
    assert {"./deploy/nats:/etc/nats/config:ro", "log:/data", *wanted} == set(composed["volumes"])


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")
def test_kustomize_renders_it(tmp_path: Path) -> None:
    """With the folder that `sluice auth init` makes; pods see no other key than theirs."""
    shutil.copytree(DEPLOY, tmp_path / "deploy", ignore=shutil.ignore_patterns("auth", "wheels"))
    command = (
        *("auth", "init", "--dir", str(tmp_path / "deploy" / "auth")),
        *("--host", "nats", "--server-dir", "/etc/nats/auth"),
    )
    sluice(*command).ok()
    made = subprocess.run(
        ["kubectl", "kustomize", "deploy"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    rendered = list(yaml.safe_load_all(made.stdout))
    secrets = {one["metadata"]["name"] for one in rendered if one["kind"] == "Secret"}
    maps = {one["metadata"]["name"] for one in rendered if one["kind"] == "ConfigMap"}
    assert {"sluice-public", "nats-server"} < secrets | maps
    for worker in (one for one in rendered if one["kind"] in ("Deployment", "StatefulSet")):
        sources = volumes(worker).values()
        used = [volume["secret"]["secretName"] for volume in sources if "secret" in volume]
        name = worker["metadata"]["name"]
        assert used == ["nats-server" if name == "nats" else f"key-{name}"]
        assert set(used) <= secrets
        assert {volume["configMap"]["name"] for volume in sources if "configMap" in volume} <= maps


@pytest.mark.parametrize("worker", WORKERS, ids=lambda w: w["metadata"]["name"])
def test_workers_are_complete(worker: dict[str, Any]) -> None:
    """Selectors match, nothing runs as root, config maps exist, and the image is pinned in one place."""
    spec, pod = worker["spec"], worker["spec"]["template"]
    assert spec["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    if worker["metadata"]["name"] == "agent":
        # Root without rights but those to run jobs as somebody else.
        (agent,) = containers(worker)
        capabilities = agent["securityContext"]["capabilities"]
        assert capabilities["drop"] == ["ALL"]
        assert capabilities["add"] == COMPOSE["services"]["agent"]["cap_add"]
        environments = agent["env"], COMPOSE["services"]["agent"]["environment"]
        assert {"name": "AGENT_RUN_AS", "value": "job"} in environments[0]
        assert environments[1]["AGENT_RUN_AS"] == "job"
        assert re.search(r"useradd .* job ", (DEPLOY / "Dockerfile").read_text())
    else:
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    for one in containers(worker):
        assert ":" not in one["image"]
        assert one["image"] in {image["name"] for image in KUSTOMIZATION["images"]}
    known = {generated["name"] for generated in KUSTOMIZATION["configMapGenerator"]}
    sources = [source for one in containers(worker) for source in one.get("envFrom", ())]
    used = {source["configMapRef"]["name"] for source in sources}
    used |= {v["configMap"]["name"] for v in volumes(worker).values() if "configMap" in v}
    assert used <= known


def services() -> list[dict[str, Any]]:
    return [worker for worker in WORKERS if containers(worker)[0]["image"] == "sluice"]


@pytest.mark.parametrize("worker", services(), ids=lambda w: w["metadata"]["name"])
def test_services_log_in_as_themselves(worker: dict[str, Any]) -> None:
    """A service exists, has the key of the user of its own name, and its probes find it."""
    (one,) = containers(worker)
    module = one["command"][-1].removeprefix("sluice.services.")
    assert (ROOT / "services" / module / "__main__.py").is_file()
    env = {variable["name"]: variable for variable in one["env"]}
    assert not env.keys() & KEY_VARIABLES.keys()
    assert {"configMapRef": {"name": "sluice-config"}} in one["envFrom"]
    seen = volumes(worker)
    assert seen["/etc/sluice/key"]["secret"]["secretName"] == f"key-{worker['metadata']['name']}"
    assert "AGENT_NAME" in env if module == "agent" else "SLUICE_INSTANCE" in env
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        if probe in one:
            assert one[probe]["exec"]["command"][:3] == ["python", "-m", "sluice.log.runtime.healthcheck"]
    composed = COMPOSE["services"][module]
    assert composed["command"] == one["command"]
    assert composed["environment"].items() >= KEY_VARIABLES.items()
    mounted = [volume for volume in composed["volumes"] if "/keys" in volume]
    assert mounted == [f"${{SLUICE_AUTH:-./deploy/auth}}/keys/{module}:/etc/sluice/key:ro"]


def test_gates_share_rates() -> None:
    """Each is told how many there are, and where the file of roles is."""
    (gate,) = (worker for worker in WORKERS if worker["metadata"]["name"] == "gate")
    env = {variable["name"]: variable.get("value") for variable in containers(gate)[0]["env"]}
    composed = COMPOSE["services"]["gate"]
    assert env["GATE_REPLICAS"] == str(gate["spec"]["replicas"])
    assert composed["environment"]["GATE_REPLICAS"] == str(composed["deploy"]["replicas"])
    assert env["GATE_ROLES"] == composed["environment"]["GATE_ROLES"] == "/etc/sluice/public/roles.yaml"
    assert volumes(gate)["/etc/sluice/public"]["configMap"]["name"] == "sluice-public"
    assert "${SLUICE_AUTH:-./deploy/auth}/public:/etc/sluice/public:ro" in composed["volumes"]


def test_runtime_lock_is_what_runs_need() -> None:
    """The image gets the project's dependencies and theirs, with hashes, and no tool of development."""
    command = [sys.executable, "deploy/runtime_lock.py", "requirements.lock", "pyproject.toml"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    blocks = re.split(r"(?m)^(?=[A-Za-z0-9])", made)[1:]
    names = {re.split(r"[=\s]", block)[0] for block in blocks}
    assert {"msgspec", "nats-py", "markdown-it-py", "obstore"} <= names
    assert not names & {"pytest", "mypy", "ruff", "hypothesis", "setuptools", "testcontainers", "moto"}
    assert all("--hash=sha256:" in block for block in blocks)
