"""The manifests for Kubernetes, run as containers: keys are read, and change without a restart."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import sluice
from tests.support.waiting import wait_until

from .compose import ROOT, why_not
from .pods import Pods, docker

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

KEYED = ("scheduler", "slice-aggregator", "variant-controller", "admission-check", "api", "gate", "agent")
SUBMIT = ("submit", "-q", "vision", "--wait", "--timeout", "60s", "--name")


@pytest.fixture(scope="module")
def pods(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pods]:
    if reason := why_not():
        pytest.skip(reason)
    if shutil.which("kubectl") is None or os.getuid():
        pytest.skip("needs kubectl, and root to say whose files are")
    image = f"sluice:pods{os.getpid()}"
    wheels = ["--build-arg", "PIP_NO_INDEX=1"] if list((ROOT / "deploy/wheels").glob("*.whl")) else []
    docker("build", "-q", *wheels, "-f", "deploy/Dockerfile", "-t", image, ".", timeout_s=600)
    pods = Pods(f"sluicepods{os.getpid()}", tmp_path_factory.mktemp("pods"), image)
    try:
        pods.prepare()
        for worker in pods.apply():
            pods.start(worker)
        wait_until(lambda: all(pods.ready(name) for name in KEYED))
        pods.sluice("apply", "-f", "examples/demo")
        yield pods
    finally:
        pods.remove()
        docker("image", "rm", "-f", image)


def test_a_job_runs(pods: Pods) -> None:
    """Everybody reads the key in its own pod; a job does not read that of its agent."""
    pods.sluice(
        *SUBMIT, "first", "--", "sh", "-c", "cat /etc/sluice/key/key.nk && exit 1; test $(id -u) = 10002"
    )
    assert pods.sluice("get", "job", "first", "-o", "{.status.phase}").strip() == "Succeeded"


def changed(pods: Pods, *words: str) -> None:
    """Change who there is, and apply it; then the server has loaded it."""
    log = f"{pods.name}-nats-reload"
    before = docker("logs", log).count("has been told")
    sluice("auth", *words, "--dir", str(pods.auth)).ok()
    pods.apply()
    wait_until(lambda: docker("logs", log).count("has been told") > before)


def test_keys_change_and_nobody_is_restarted(pods: Pods) -> None:
    """Secrets keep their names, files are replaced, and the container beside the server sees to the rest."""
    before = pods.beginnings()
    for name in KEYED:
        user = name.replace("-", "_")
        changed(pods, "rotate", user)
        changed(pods, "revoke", user, "--old")
    wait_until(lambda: all(pods.ready(name) for name in KEYED))
    pods.sluice(*SUBMIT, "rotated", "--", "true")
    changed(pods, "rotate", "tls")
    pods.sluice(*SUBMIT, "certified", "--", "true")
    assert pods.beginnings() == before


def test_teams_come_and_go(pods: Pods) -> None:
    """The gate and the server have the new file of roles; the key stays out of the cluster."""
    changed(pods, "add", "blue", "--role", "team", "-n", "default", "-q", "vision", "--rate", "50")
    folder = pods.auth / "keys" / "blue"
    url = f"tls://127.0.0.1:{pods.port}?credentials={folder / 'key.nk'}&ca={folder / 'ca.pem'}"
    job = ("submit", "-q", "vision", "--name", "of-blue", "--", "true")
    wait_until(lambda: sluice("--server", url, *job).code == 0)
    assert not list(Path(pods.directory / "volumes").glob("*blue*"))
    kept = pods.directory / "kept"
    shutil.copytree(folder, kept)
    changed(pods, "revoke", "blue")
    gone = f"tls://127.0.0.1:{pods.port}?credentials={kept / 'key.nk'}&ca={kept / 'ca.pem'}"
    assert sluice("--server", gone, "get", "jobs").code != 0
