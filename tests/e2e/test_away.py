"""An agent is away, and its job waits for it: until a person says that it will not be back."""

import pytest

from tests.support.command import Sluice
from tests.support.system import System
from tests.support.waiting import wait_until

from .conftest import queue_yaml

pytestmark = [pytest.mark.nats, pytest.mark.long]


def test_a_person_declares_an_agent_lost(run: Sluice, cell: System, tmp_path_factory) -> None:
    """Not while it has a heartbeat. Its job begins elsewhere, and the log has who has said so."""

    def start(name: str, **own: str) -> object:
        work_dir = str(tmp_path_factory.mktemp(name))
        env = {"AGENT_NAME": name, "AGENT_WORK_DIR": work_dir, "AGENT_HEARTBEAT_TTL_S": "2"}
        return cell.start("agent", env | own, label=f"agent-{name}")

    run("apply", "-f", "-", stdin=queue_yaml("away")).ok()
    patient = start("patient", AGENT_ON_LOSS="Wait")
    wait_until(lambda: "Wait" in run("get", "agents").out)
    run("submit", "-q", "away", "--name", "long", "--", "sleep", "600").ok()
    wait_until(lambda: "Running" in run("get", "job", "long").out)
    refused = run("agent", "lost", "patient")
    assert refused.code == 1
    assert "its heartbeat goes on" in refused.err
    start("other")
    cell.kill(patient)  # type: ignore[arg-type]
    wait_until(lambda: "Away" in run("get", "agents").out)
    shown = run("describe", "agent", "patient").ok().out
    assert "its jobs stay with it until it is back" in shown
    assert "Wait" in shown
    assert "ago)" in shown
    assert run("get", "job", "long", "-o", "json").ok().json["status"]["executor"] == "patient"
    assert "1 job taken from it" in run("agent", "lost", "patient", "-m", "it burnt").ok().out
    wait_until(lambda: run("get", "job", "long", "-o", "json").ok().json["status"].get("executor") == "other")
    assert 'The agent "patient" was declared lost by' in run("log", "tail", "--no-follow").ok().out
    wait_until(lambda: "Lost" in run("get", "agents").out)
