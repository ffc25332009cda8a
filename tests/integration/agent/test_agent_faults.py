"""Agents that die, hang, share and come back: nothing runs twice, nothing is lost."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
import psutil
import pytest

from sluice.events.slices import ExecutorLost, ExecutorSeen, JobClaimed, JobResumed, WorkloadStopped
from sluice.log.nats.kv import Bucket
from sluice.protocol.dispatch import Claim, claim_key
from sluice.sdk import Change
from tests.integration.agent.conftest import Cluster
from tests.support.waiting import PATIENCE_S, eventually, stays

pytestmark = [pytest.mark.nats, pytest.mark.long]

FOREVER = "echo began; while :; do sleep 0.05; done"
ONCE = "echo began; n=0; while [ $n -lt 40 ]; do sleep 0.05; n=$((n+1)); done"


async def test_killed_agent_that_comes_back_ends_its_orphans(cluster: Cluster) -> None:
    """kill -9 leaves processes behind; the agent, started again, ends and reports them: they run again."""
    agent = cluster.agent(heartbeat_ttl_s="30")
    await cluster.run("a", FOREVER)
    await eventually(lambda: "began" in cluster.log("a"))
    cluster.system.kill(agent)
    orphans = cluster.pods("a")
    assert orphans, "the process survives its agent"
    cluster.agent(heartbeat_ttl_s="30")
    await eventually(lambda: "began" in cluster.log("a", attempt=2))
    assert not any(process.is_running() for process in orphans)
    (stop,) = await cluster.events(WorkloadStopped)
    assert stop.message == 'Executor "x" was restarted'
    assert await cluster.events(ExecutorLost) == []


async def test_killed_agent_that_stays_away_leaves_nothing_running(cluster: Cluster) -> None:
    """Its pods have ended before its jobs are given to another agent."""
    agent = cluster.agent("x", heartbeat_ttl_s="25")
    await cluster.run("a", f"trap '' TERM; {FOREVER}")
    await eventually(lambda: "began" in cluster.log("a"))
    cluster.agent("y")
    await eventually(lambda: seen(cluster, "y"))
    orphans = cluster.pods("a")
    cluster.system.kill(agent)
    await eventually(lambda: cluster.events(ExecutorLost))
    assert not any(process.is_running() for process in orphans)
    await eventually(lambda: "began" in cluster.log("a", attempt=2, agent="y"))


async def test_result_survives_the_agent(cluster: Cluster) -> None:
    """A job that had finished when its agent died is reported finished by the next life, not run again."""
    agent = cluster.agent(heartbeat_ttl_s="30")
    await cluster.run("a", "echo began; sleep 1")
    await eventually(lambda: "began" in cluster.log("a"))
    result = cluster.work_dir() / "default" / "a" / "1" / "result.json"
    cluster.system.kill(agent)
    # What the agent would have written, had it lived a moment longer.
    result.write_text('{"success": true}')
    cluster.agent(heartbeat_ttl_s="30")
    state = await cluster.client.wait("a", timeout_s=PATIENCE_S)
    assert (state.success, state.attempt) == (True, 1)


async def test_lost_agent(cluster: Cluster) -> None:
    """Heartbeats stop for good: the agent is recorded as lost, and its job runs on another."""
    agent = cluster.agent("x", flavors="default")
    await cluster.run("a", FOREVER)
    await eventually(lambda: "began" in cluster.log("a"))
    cluster.agent("y")
    await eventually(lambda: seen(cluster, "y"))
    cluster.system.kill(agent)
    for process in cluster.pods("a"):
        # The machine is gone; its guardian may have been quicker.
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    await eventually(lambda: "began" in cluster.log("a", attempt=2, agent="y"))
    assert [event.executor for event in await cluster.events(ExecutorLost)] == ["x"]
    (stop,) = await cluster.events(WorkloadStopped)
    assert (stop.reason, stop.message) == ("NodeFailures", 'The agent "x" was lost')


async def seen(cluster: Cluster, name: str) -> bool:
    return name in [event.executor for event in await cluster.events(ExecutorSeen)]


async def test_paused_agent_is_fenced(cluster: Cluster) -> None:
    """An agent that only slept was declared lost; back again it ends what has gone on elsewhere."""
    agent = cluster.agent("x")
    await cluster.run("a", FOREVER)
    await eventually(lambda: "began" in cluster.log("a"))
    stale = cluster.pods("a", program="sh")
    cluster.agent("y")
    await eventually(lambda: seen(cluster, "y"))
    agent.pause()
    await eventually(lambda: "began" in cluster.log("a", attempt=2, agent="y"))
    if not all(process.is_running() for process in stale):
        pytest.skip("a machine so slow that the agent was lost, and ended its pods, before it was paused")
    agent.resume()
    await eventually(lambda: not any(process.is_running() for process in stale))
    # The new attempt goes on.
    await stays(lambda: cluster.pods("a"), 0.5)
    assert [event.attempt for event in await cluster.events(JobResumed)] == [1, 2]
    assert len(await cluster.events(WorkloadStopped)) == 1


async def test_agent_that_ends_in_order(cluster: Cluster) -> None:
    """SIGTERM: its jobs are stopped and reported at once, so that they run elsewhere."""
    agent = cluster.agent("x")
    await cluster.run("a", FOREVER)
    await eventually(lambda: "began" in cluster.log("a"))
    cluster.agent("y")
    await eventually(lambda: seen(cluster, "y"))
    assert await asyncio.to_thread(agent.stop) == 0
    await eventually(lambda: "began" in cluster.log("a", attempt=2, agent="y"))
    (stop,) = await cluster.events(WorkloadStopped)
    assert stop.message == 'Executor "x" was shut down'


async def test_two_agents_share_by_flavor(cluster: Cluster) -> None:
    """Each takes what its flavors allow; nobody takes what another has."""
    cluster.agent("x", flavors="spot,fast")
    cluster.agent("y", flavors="on-demand")
    flavors = {"a": "spot", "b": "on-demand", "c": "fast", "d": "on-demand"}
    cluster.scheduler.decider.flavor_of = flavors
    for name in flavors:
        await cluster.run(name, "echo $SLUICE_AGENT")
    await cluster.client.wait_all(list(flavors), timeout_s=PATIENCE_S)
    claims = {event.job.partition("/")[2]: event.executor for event in await cluster.events(JobClaimed)}
    assert claims == {"a": "x", "b": "y", "c": "x", "d": "y"}


async def test_capacity_is_kept(cluster: Cluster) -> None:
    """An agent runs no more pods than it has room for; the rest goes to others, or waits."""
    cluster.agent("x", capacity="2")
    jobs = [f"j{n}" for n in range(6)]
    for name in jobs:
        await cluster.run(name, "date +%s%N; sleep 0.3; date +%s%N")
    await cluster.client.wait_all(jobs, timeout_s=PATIENCE_S)
    spans = [[int(line) for line in cluster.log(name, agent="x").split()] for name in jobs]
    assert [len(span) for span in spans] == [2] * len(jobs)
    beside = [sum(begin <= at < end for begin, end in spans) for at, _ in spans]
    assert 1 <= max(beside) <= 2


async def test_work_spreads(cluster: Cluster) -> None:
    """Two agents without limits both get work, and every job runs exactly once."""
    cluster.agent("x")
    cluster.agent("y")
    await eventually(lambda: seen(cluster, "x"))
    await eventually(lambda: seen(cluster, "y"))
    jobs = [f"j{n}" for n in range(20)]
    for name in jobs:
        await cluster.run(name, "echo once; sleep 1")
    await cluster.client.wait_all(jobs, timeout_s=PATIENCE_S)
    said = {name: [cluster.log(name, agent=agent) for agent in "xy"] for name in jobs}
    assert all(sorted(texts) == ["", "once\n"] for texts in said.values()), said
    assert all(any(texts[which] for texts in said.values()) for which in (0, 1))


async def test_stop_that_nobody_began_is_answered(cluster: Cluster) -> None:
    """Evicted before any agent had taken it: the next agent to come says that nothing runs."""
    await cluster.run("a", FOREVER)
    await cluster.client.wait("a", "Running", timeout_s=PATIENCE_S)
    cluster.scheduler.evict("a", hold=True)

    async def unanswered() -> bool:
        return await cluster.events(WorkloadStopped) == []

    await stays(unanswered, 0.3)
    cluster.agent()
    await eventually(lambda: cluster.events(WorkloadStopped))
    assert not cluster.pods("a")


async def test_unreported_claim_of_a_dead_agent_is_taken_over(cluster: Cluster) -> None:
    """A claim that never made it into the log is nobody's loss but its own: another agent takes it over."""

    await cluster.run("a", "echo began")
    state = await cluster.client.wait("a", "Running", timeout_s=PATIENCE_S)
    assert state.attempt == 1
    (uid,) = [c.entry.uid async for c in first(cluster) if c.entry is not None]
    claims = Bucket(cluster.client.log, "claims")
    await claims.ensure()
    value = msgspec.json.encode(Claim(executor="dead", instance="dead-1"))
    await claims.put(claim_key("default/a", uid, 1), value, revision=0)  # type: ignore[arg-type]
    cluster.agent(takeover_s="1")
    await cluster.client.wait("a", timeout_s=PATIENCE_S)
    assert cluster.log("a") == "began\n"


async def first(cluster: Cluster) -> AsyncIterator[Change]:
    async for change in cluster.client.dispatch():
        yield change
        return


async def test_server_restart_is_survived(cluster: Cluster) -> None:
    """The server is killed and comes back: jobs go on, and their reports arrive."""
    cluster.agent(heartbeat_ttl_s="5")
    await cluster.run("a", ONCE)
    await eventually(lambda: "began" in cluster.log("a"))
    await asyncio.to_thread(cluster.system.server.restart)
    state = await cluster.client.wait("a", timeout_s=PATIENCE_S)
    assert (state.success, state.attempt) == (True, 1)


async def test_same_name_twice(cluster: Cluster) -> None:
    """Of two agents with one name the earlier one gives way, and says why."""
    first_agent = cluster.agent("x")
    await eventually(lambda: seen(cluster, "x"))
    cluster.agent("x", work_dir=str(cluster.system.directory / "elsewhere"))
    await eventually(lambda: not first_agent.alive)
    assert first_agent.process.returncode == 1
    assert "names must be unique" in first_agent.log_path.read_text()


async def test_same_directory_twice(cluster: Cluster) -> None:
    """A second agent in one directory would take the first one's processes for orphans: it refuses."""
    cluster.agent("x")
    await eventually(lambda: seen(cluster, "x"))
    second = cluster.agent("y", work_dir=str(cluster.work_dir("x")))
    await eventually(lambda: not second.alive)
    assert second.process.returncode == 1
    assert "another agent works in this directory" in second.log_path.read_text()
