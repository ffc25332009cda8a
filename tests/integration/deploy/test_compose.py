"""The compose file as users start it: image built, cell up, a job through it, a leader killed."""

import os
from collections.abc import Callable, Iterator

import pytest

from tests.support.waiting import PATIENCE_S, wait_until

from .compose import Compose, why_not
from .secured import SERVICES

DECIDING = {"scheduler", "slice-aggregator", "variant-controller", "admission-check"}

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    if reason := why_not():
        pytest.skip(reason)
    compose = Compose(f"sluicetest{os.getpid()}", tmp_path_factory.mktemp("compose") / "auth")
    try:
        compose("build", "scheduler", timeout_s=600)
        compose.new_keys()
        compose("up", "-d", timeout_s=300)
        eventually(lambda: leaders(compose) >= DECIDING)
        compose.sluice("apply", "-f", "examples/demo")
        yield compose
    finally:
        compose.remove()


def eventually(condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
    """As `wait_until`, of commands that may also fail."""
    failures: list[object] = []

    def holds() -> object:
        try:
            return condition()
        except AssertionError as error:
            failures[:] = [error]
            return False

    try:
        wait_until(holds, timeout_s)
    except AssertionError as error:
        raise AssertionError(f"{error}; {failures}") from error


def leaders(compose: Compose) -> set[object]:
    return {row["service"] for row in compose.status() if row["role"] == "leader"}


def test_a_job_runs(compose: Compose) -> None:
    """A job runs to its end in the agent's container."""
    compose.sluice("submit", "-q", "vision", "--name", "hello", "--wait", "--timeout", "60s", "--", "true")
    assert "Succeeded" in compose.sluice("get", "jobs")


def test_keys_change_and_nobody_is_restarted(compose: Compose) -> None:
    """The old keys count no more; who held them is back by itself with the new ones."""
    names = (*SERVICES, "agent")
    before = {c: compose.started(c) for name in ("nats", *names) for c in compose.containers(name)}
    for name in (*names, "admin"):
        compose.rotate(name)
    command = ("submit", "-q", "vision", "--name", "rotated", "--wait", "--timeout", "60s", "--", "true")
    eventually(lambda: leaders(compose) >= DECIDING)
    compose.sluice(*command)
    assert {c: compose.started(c) for name in ("nats", *names) for c in compose.containers(name)} == before


def test_a_job_cannot_log_in_as_the_agent(compose: Compose) -> None:
    """Its key is another user's file, and so is what the processes of the container know."""
    files = "/etc/sluice/key/key.nk /proc/1/environ /proc/$PPID/environ"
    peek = f"for file in {files}; do cat $file && exit 1; done; test $(id -u) = 10002"
    command = ("submit", "-q", "vision", "--name", "peek", "--wait", "--timeout", "60s", "--", "sh", "-c")
    compose.sluice(*command, peek)
    assert compose.sluice("get", "job", "peek", "-o", "{.status.phase}").strip() == "Succeeded"


def test_containers_are_healthy(compose: Compose) -> None:
    """The health checks pass for leaders, stand-bys, the api and the agent."""
    containers = [container for service in (*SERVICES, "agent") for container in compose.containers(service)]
    assert len(containers) == 12
    eventually(lambda: {compose.health(c) for c in containers} == {"healthy"}, 90)


def test_a_stand_by_takes_over(compose: Compose) -> None:
    """With the leading scheduler's container killed, jobs go on being admitted."""
    compose.kill(compose.leader("scheduler"))
    compose.sluice("submit", "-q", "vision", "--name", "after", "--wait", "--timeout", "60s", "--", "true")
    compose("up", "-d")


def test_the_log_outlives_the_containers(compose: Compose) -> None:
    """`down` and `up` again: everything is as it was."""
    before = compose.sluice("get", "jobs", "-o", "name")
    compose("down", "-t", "20")
    compose("up", "-d", timeout_s=300)
    eventually(lambda: compose.sluice("get", "jobs", "-o", "name") == before)
