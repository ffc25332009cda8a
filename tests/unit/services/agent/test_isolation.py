"""Settings that isolate jobs."""

import resource

import pytest

from sluice.services.agent.config import load
from sluice.services.agent.isolation import IsolationError, not_isolated, parse_limits, restrained


def test_limits_are_those_of_the_system() -> None:
    """Names as in setrlimit, amounts with binary units."""
    assert parse_limits("nofile=1024, as=8Gi,core=0") == {
        resource.RLIMIT_NOFILE: 1024,
        resource.RLIMIT_AS: 8 << 30,
        resource.RLIMIT_CORE: 0,
    }
    assert parse_limits("") == {}


@pytest.mark.parametrize(
    "text", ["nofiles=3", "nofile", "nofile=x", "nofile=1K", "as=-1", "infinity=1", "=1"]
)
def test_wrong_limits_are_refused(text: str) -> None:
    with pytest.raises(IsolationError, match="AGENT_LIMITS"):
        load({"AGENT_LIMITS": text}, "/data")


def test_users_that_do_not_do() -> None:
    with pytest.raises(IsolationError, match="no such user"):
        load({"AGENT_RUN_AS": "nobody-knows"}, "/data")
    with pytest.raises(IsolationError, match="root"):
        load({"AGENT_RUN_AS": "0"}, "/data")


def test_what_is_not_isolated_is_said() -> None:
    """Without a user of their own jobs can read what the agent can, its credentials first of all."""
    assert "credentials" in not_isolated(None, {})[0]
    assert restrained({}, None) is None
