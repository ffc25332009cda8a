"""Agents that are cut off, or hang: what was asked for with their claims is what becomes of their jobs."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from sluice.events.slices import ExecutorAway, ExecutorLost, ExecutorSeen, JobClaimed, WorkloadStopped
from tests.integration.agent.conftest import Cluster
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import PATIENCE_S, eventually, stays

from .test_agent_faults import FOREVER, seen

pytestmark = [pytest.mark.nats, pytest.mark.long]

LEASED = {"lease": "true", "requeue_after_s": "6", "heartbeat_ttl_s": "3"}


@pytest.fixture
async def proxy(cluster: Cluster) -> AsyncIterator[TcpProxy]:
    async with TcpProxy(lambda: int(cluster.system.url.rpartition(":")[2])) as proxy:
        yield proxy


async def begun(cluster: Cluster, proxy: TcpProxy | None, **env: str) -> None:
    """Start agent "x", which takes the job, and then "y"."""
    own = {"SLUICE_NATS_URL": proxy.url} if proxy is not None else {}
    cluster.system.env |= own
    cluster.agent("x", **env)
    for name in own:
        del cluster.system.env[name]
    await cluster.run("a", f"trap '' TERM; {FOREVER}")
    await eventually(lambda: "began" in cluster.log("a"))
    cluster.agent("y")
    await eventually(lambda: seen(cluster, "y"))


@pytest.mark.parametrize("how", ["cut", "hold"])
async def test_leased_agent_that_is_cut_off_has_ended_its_pods(
    cluster: Cluster, proxy: TcpProxy, how: str
) -> None:
    """Before the job is begun elsewhere, though they ignore TERM; later it reports nothing that counts."""
    await begun(cluster, proxy, **LEASED)
    pods = cluster.pods("a")
    getattr(proxy, how)()
    while not await cluster.events(ExecutorLost):
        assert not cluster.pods("a") or "began" not in cluster.log("a", attempt=2, agent="y")
        await asyncio.sleep(0.05)
    assert not any(pod.is_running() for pod in pods)
    await eventually(lambda: "began" in cluster.log("a", attempt=2, agent="y"))
    proxy.heal()
    await eventually(lambda: seen_again(cluster))
    assert len(await cluster.events(WorkloadStopped)) == 1


async def seen_again(cluster: Cluster) -> bool:
    return [event.executor for event in await cluster.events(ExecutorSeen)].count("x") == 2


async def test_guardian_ends_the_pods_of_a_leased_agent_that_hangs(cluster: Cluster) -> None:
    """It cannot do so itself; when it goes on it finds its attempt lost."""
    await begun(cluster, None, **LEASED)
    pods = cluster.pods("a", program="sh")
    (agent,) = cluster.system.live(label="agent-x")
    agent.pause()
    await eventually(lambda: cluster.events(ExecutorLost))
    assert not any(pod.is_running() and pod.status() != "zombie" for pod in pods)
    agent.resume()
    await eventually(lambda: "began" in cluster.log("a", attempt=2, agent="y"))
    await eventually(lambda: seen_again(cluster))
    assert len(await cluster.events(WorkloadStopped)) == 1


async def test_leased_agent_ends_what_it_cannot_report_though_all_are_cut_off(
    cluster: Cluster, proxy: TcpProxy
) -> None:
    """It says so when it is back, in time for nobody to have taken it for lost; then the job begins anew."""
    await begun(cluster, proxy, **(LEASED | {"heartbeat_ttl_s": "60"}))
    proxy.cut()
    await eventually(lambda: not cluster.pods("a"))
    proxy.heal()
    await eventually(lambda: cluster.events(WorkloadStopped))
    (stopped,) = await cluster.events(WorkloadStopped)
    assert (stopped.reason, stopped.message) == ("NodeFailures", 'Executor "x" could not report for 3 s')
    assert await cluster.events(ExecutorLost) == []


async def test_job_waits_for_an_agent_that_asks_for_it(cluster: Cluster, proxy: TcpProxy) -> None:
    """It goes on while the agent is away, and nobody else begins it; back, the agent is seen again."""
    await begun(cluster, proxy, on_loss="Wait")
    (claimed,) = await cluster.events(JobClaimed)
    assert claimed.on_loss.policy == "Wait"
    proxy.cut()
    await eventually(lambda: cluster.events(ExecutorAway), PATIENCE_S)
    # Not counted: what a shell begins has the shell's name at first.
    await stays(lambda: cluster.pods("a", program="sh"), 3.0)
    assert "began" not in cluster.log("a", attempt=2, agent="y")
    proxy.heal()
    await eventually(lambda: seen_again(cluster))
    assert await cluster.events(ExecutorLost) == await cluster.events(WorkloadStopped) == []
