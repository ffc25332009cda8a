"""Who floods the cell with submissions holds up nobody else."""

from sluice.core.decision_loop import step
from sluice.core.slices.backlog import Backlog
from sluice.core.slices.decider import PORTION
from sluice.events.base import Event, JobKey
from sluice.events.codec import encode_message
from sluice.events.slices import ExecutorLost, Rejected, WorkloadCreated, WorkloadFinished, WorkloadStopped
from tests.support.slices_world import World, manifest, names

MANY = 3 * PORTION


def publish(
    world: World, name: str, *, namespace: str = "default", source: str = "flood", kind: str = "JobSubmitted"
) -> int:
    payload = encode_message(
        message_id=f"{kind} {name}",
        source=source,
        event_type=kind,
        subject=f"{namespace}/{name}",
        at=world.now,
        data=manifest(name, namespace=namespace) if kind == "JobSubmitted" else {},
    )
    return world.append(f"job.{namespace}.{name}", payload)


def flooded(world: World) -> World:
    for number in range(MANY):
        publish(world, f"f{number}")
    return world


def first_step(world: World) -> list[Event]:
    """Return what is decided first; the rest is decided, too, and all of it again."""
    before = len(world.steps)
    world.settle()
    assert not world.state.inbox
    world.verify()
    return list(world.steps[before].events)


def made(events: list[Event]) -> list[str]:
    return [
        event.workload.job.key
        for event in events
        if isinstance(event, WorkloadCreated) and event.workload.job
    ]


def running(world: World, name: str) -> None:
    world.submit(name)
    world.admit(name)
    world.job("JobPodsReady", {"executor": "one"}, name)


def test_what_is_said_of_live_jobs_is_answered_first() -> None:
    """Behind a flood that is not answered yet; with a portion of the flood, so that it goes on, too."""
    world = World()
    running(world, "a")
    flooded(world).message("a", "JobFinished", {"attempt": 1})
    said = first_step(world)
    assert isinstance(said[0], WorkloadFinished)
    assert len(made(said)) == PORTION


def test_steps_of_a_flood_are_small() -> None:
    world = flooded(World())
    world.settle()
    assert [len(made(list(step.events))) for step in world.steps] == [PORTION] * (MANY // PORTION)


def test_large_manifests_make_smaller_portions() -> None:
    """So that a portion takes about as long."""
    world = World()
    for number in range(6):
        world.message(f"f{number}", "JobSubmitted", manifest(f"f{number}", command=("x" * 40_000,)))
    world.settle()
    assert [len(step.events) for step in world.steps] == [2, 2, 2]


def test_other_publishers_have_their_turns() -> None:
    """Of the flood's namespace by their source, of other namespaces whoever they are."""
    world = flooded(World())
    publish(world, "b", source="other")
    for number in range(MANY):
        publish(world, f"c{number}", namespace="team", source="flood")
    said = made(first_step(world))
    assert said[:4] == ["default/f0", "team/c0", "default/b", "team/c1"]
    assert len(said) == PORTION


def test_an_agent_is_lost_at_once() -> None:
    """Its jobs have stopped; nothing of that waits for those who only want to begin."""
    world = World()
    world.agent("Seen", "one")
    running(world, "a")
    flooded(world).message("presence.agent.one", "Lost", {})
    said = first_step(world)
    assert names(said) == [WorkloadStopped.__name__, ExecutorLost.__name__]


def test_messages_about_a_job_keep_their_order() -> None:
    """Those behind a submission that waits, wait for it."""
    world = flooded(World())
    publish(world, "a")
    publish(world, "a", kind="JobDeleted")
    publish(world, "a", kind="JobDeleted")
    world.settle()
    of_it = [e for s in world.steps for e in s.events if e.cause > MANY]
    assert names(of_it) == ["WorkloadCreated", "WorkloadDeleted", "Rejected"]
    assert isinstance(of_it[-1], Rejected)


def test_a_snapshot_keeps_whose_turn_it_is() -> None:
    """Taken amid the flood."""
    world = flooded(World())
    for number in range(MANY):
        publish(world, f"b{number}", source="other")
    decider = world.service.decider
    step(decider, world.state, world.seq, world.now)
    loaded = decider.load(decider.dump(world.state))
    assert decider.dump(loaded) == decider.dump(world.state)
    while said := step(decider, world.state, world.seq, world.now):
        assert step(decider, loaded, world.seq, world.now) == said
    assert not loaded.inbox


def test_whose_turn_is_over_goes_to_the_end() -> None:
    """More queues than a portion has: all have their turn before anybody has a second one."""
    backlog, seen = Backlog(), []
    for namespace in "abcde":
        for number in range(4):
            backlog.add(JobKey(f"{namespace}/{number}"), (namespace, ""))
    while backlog:
        for key in [key for key, _ in zip(backlog, range(3), strict=False)]:
            backlog.remove(key)
            seen.append(key)
    rounds = [{key[0] for key in seen[begin : begin + 5]} for begin in range(0, 20, 5)]
    assert rounds == [set("abcde")] * 4
    assert [key[2] for key in seen if key[0] == "a"] == list("0123")
