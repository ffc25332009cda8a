"""What jobs see of their agent, and what they may not do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S

from .conftest import Cluster, shell

pytestmark = pytest.mark.nats

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs as another user")


async def test_jobs_get_a_plain_environment(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the agent's password nor any secret of who started it, but what the agent was told to pass."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("CUDA_HOME", "/cuda")
    cluster.agent(pass_env="CUDA_*")
    await cluster.run("env", "env")
    await cluster.client.wait("env", timeout_s=PATIENCE_S)
    said = cluster.log("env")
    assert "CUDA_HOME=/cuda" in said
    assert "hidden" not in said
    assert "NATS_URL" not in said


async def test_limits(cluster: Cluster) -> None:
    """Of each process, also against its will."""
    cluster.agent(limits="nofile=77,core=0")
    await cluster.run("limited", "ulimit -n; ulimit -c; ulimit -n 100 || echo refused")
    await cluster.client.wait("limited", timeout_s=PATIENCE_S)
    lines = cluster.log("limited").splitlines()
    assert lines[:2] == ["77", "0"]
    if os.geteuid() != 0:
        assert lines[-1] == "refused"


async def test_secrets_stay_out_of_the_log(cluster: Cluster, tmp_path: Path) -> None:
    """The manifest names one, the job has it, and nothing on the server does."""
    file = tmp_path / "secrets" / "default" / "registry" / "token"
    file.parent.mkdir(parents=True)
    file.write_text("opensesame\n")
    cluster.agent(secrets_dir=str(tmp_path / "secrets"))
    job = shell("named", 'echo "$TOKEN" | wc -c')
    named = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "registry", "key": "token"}}}
    job["spec"]["template"]["spec"]["containers"][0]["env"] = [named]
    await cluster.client.submit(job)
    await cluster.client.wait("named", timeout_s=PATIENCE_S)
    assert cluster.log("named").strip() == "11"
    async for entries in cluster.client.log.read(1, []):
        assert not [entry for entry in entries if b"opensesame" in entry.payload]


@root_only
async def test_jobs_run_as_a_user_of_their_own(cluster: Cluster, tmp_path: Path) -> None:
    """They see nothing of the agent's, change no records of their attempt, and have a place to write."""
    for directory in (tmp_path, *tmp_path.parents):
        if directory.stat().st_mode & 0o005 != 0o005:
            directory.chmod(directory.stat().st_mode | 0o055)
    cluster.agent(run_as="nobody", limits="nofile=88")
    script = """id -u; ulimit -n; echo "$USER"; touch mine && echo written
    cat /proc/$PPID/environ || echo hidden; touch ../result.json || echo kept; pwd"""
    await cluster.run("other", script)
    await cluster.client.wait("other", timeout_s=PATIENCE_S)
    said = cluster.log("other")
    lines = [line for line in said.splitlines() if "denied" not in line]
    home = cluster.work_dir() / "default" / "other" / "1" / "home"
    assert lines == ["65534", "88", "nobody", "written", "hidden", "kept", str(home)], said


SPY = """
import subprocess, sys
from sluice.services.agent.isolation import protect
if sys.argv[1] == "yes":
    protect()
read = "cat /proc/$PPID/environ | tr '\\\\0' '\\\\n' | grep NATS_URL"
sys.exit(subprocess.run(["sh", "-c", read]).returncode)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux'")
def test_no_process_reads_the_agents_password() -> None:
    """Not even one of the same user, which could without the agent's protection."""
    # Root reads everything, unless it gives up its capabilities, as a container's root has.
    powerless = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    env = {**os.environ, "SLUICE_NATS_URL": "nats://agent:secret@127.0.0.1"}

    def spied(protected: str) -> str:
        command = [*powerless, sys.executable, "-c", SPY, protected]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60).stdout

    assert "secret" in spied("no")
    assert spied("yes") == ""
