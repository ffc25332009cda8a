"""The decider is total: no bytes, no history makes it raise, hang, or decide otherwise a second time."""

from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.events.base import JobKey, PodSetAssignment, WorkloadKey
from sluice.events.checks import CheckStateChanged
from sluice.events.scheduler import Admitted, Evicted, QuotaReleased, QuotaReserved, WorkloadDeactivated
from tests.support.examples import examples
from tests.support.slices_world import World, manifest

QUIET = settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
types = st.sampled_from(
    [
        "JobSubmitted",
        "JobScaled",
        "JobPodsReady",
        "JobPodsReclaimable",
        "JobStopped",
        "JobFinished",
        "JobDeleted",
    ]
)
subjects = st.sampled_from(
    [
        "job.default.a",
        "job.default.a",
        "job.x.y.z",
        "job.a",
        "job.%ff.%00",
        "presence.agent.x",
        "presence.agent.",
    ]
)


@st.composite
def envelopes(draw: st.DrawFn) -> bytes:
    """Something like a CloudEvent."""
    event: dict[str, Any] = {"specversion": "1.0", "id": "1", "source": "s"}
    event["type"] = draw(types | st.text(max_size=5))
    event["data"] = draw(json_values | damaged())
    for name in draw(st.lists(st.sampled_from(list(event)), max_size=1)):
        event[name] = draw(json_values)
    return msgspec.json.encode(event)


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A manifest with something else in one place."""
    found = manifest(draw(st.sampled_from(["a", "b", "A b"])), parallelism=draw(st.integers(-2, 2**70)))
    place: Any = found
    for _ in range(draw(st.integers(1, 6))):
        if isinstance(place, dict) and place:
            key: Any = draw(st.sampled_from(sorted(place)))
        elif isinstance(place, list) and place:
            key = 0
        else:
            break
        if draw(st.booleans()):
            place[key] = draw(json_values)
            break
        place = place[key]
    return found


@QUIET
@given(st.lists(st.tuples(subjects, st.binary(max_size=40) | envelopes()), max_size=8))
def test_any_bytes_are_answered(messages: list[tuple[str, bytes]]) -> None:
    """Whatever comes on its subjects leads to events that can be written, and leaves nothing open."""
    world = World()
    for subject, payload in messages:
        assert world.envelope(subject, payload)
        assert not world.state.inbox
        assert not world.state.presence
    world.verify()


jobs = st.sampled_from(["a", "a", "a", "b"])
attempts = st.sampled_from([None, "now", "now", "now", 0, 1, 9])
"""`now` stands for the job's present attempt."""
counts = st.integers(-1, 3)

Action = tuple[str, str, dict[str, Any]]


def action(what: str | list[str], names: st.SearchStrategy[str], **fields: st.SearchStrategy[Any]) -> Any:
    kinds = [what] if isinstance(what, str) else what
    return st.tuples(st.sampled_from(kinds), names, st.fixed_dictionaries(fields))


actions: st.SearchStrategy[Action] = st.one_of(
    action(
        "JobSubmitted",
        jobs,
        parallelism=st.integers(0, 3),
        queue=st.sampled_from(["main", "main", "main", "other"]),
        priority_class=st.sampled_from(["", "", "", "high", "unknown"]),
        command=st.sampled_from([("true",), ("true",), ("true",), ("false",)]),
        ttlSecondsAfterFinished=st.sampled_from([0, 1000]),
    ),
    action("JobScaled", jobs, podSets=st.dictionaries(st.sampled_from(["main", "x"]), counts)),
    action(
        "JobPodsReady",
        jobs,
        attempt=attempts,
        ready=st.booleans(),
        executor=st.sampled_from(["", "x", "y"]),
        onLoss=st.sampled_from([None, {"policy": "Wait"}, {"afterS": 60}, {"afterS": -1}]),
    ),
    action("JobPodsReclaimable", jobs, attempt=attempts, pods=st.dictionaries(st.just("main"), counts)),
    action("JobStopped", jobs, attempt=attempts),
    action("JobFinished", jobs, attempt=attempts, success=st.booleans()),
    action(["JobDeleted", "wait", "deactivate", "check"], jobs),
    action(["Seen", "Lost", "Away"], st.sampled_from(["x", "y"])),
    action(["reserve", "admit", "admit", "admit", "reserve-old"], jobs),
    action(["evict", "evict", "release"], jobs),
)


def play(world: World, action: Action, *, settle: bool) -> None:
    """Do one action; what the scheduler cannot say of a job is left out."""
    what, name, data = action
    job = world.state.jobs.get(JobKey(f"default/{name}"))
    key = job.record.key if job is not None else WorkloadKey("default/none")
    if data.get("attempt") == "now":
        data = {**data, "attempt": job.attempt if job is not None else 1}
    match what:
        case "reserve" | "reserve-old" | "admit":
            count = job.record.pod_sets[0].count if job is not None and what != "reserve-old" else 1
            assigned = PodSetAssignment(
                name="main", count=count, flavors={"cpu": "f"}, usage={"cpu": 1000 * count}
            )
            world.put(QuotaReserved(cause=1, workload=key, cluster_queue="cq", pod_sets=(assigned,)))
            if what == "admit":
                world.put(Admitted(cause=1, workload=key))
        case "evict":
            world.put(Evicted(cause=1, workload=key, reason="Preempted"))
        case "release":
            world.put(QuotaReleased(cause=1, workload=key))
        case "deactivate":
            world.put(WorkloadDeactivated(cause=1, workload=key, reason="Deactivated"))
        case "check":
            world.put(CheckStateChanged(cause=1, workload=key, check="c", state="Ready"))
        case "wait":
            world.now += 600_000_000
        case "Seen" | "Lost" | "Away":
            world.message(f"presence.agent.{name}", what, data)
        case "JobSubmitted":
            world.message(f"job.default.{name}", what, manifest(name, **data))
        case _:
            world.message(f"job.default.{name}", what, data)
    if settle:
        world.settle()


@QUIET
@given(st.lists(st.tuples(actions, st.booleans()), max_size=40))
def test_any_history_settles_and_is_decided_alike(history: list[tuple[Action, bool]]) -> None:
    """In any order and grouping: it settles, a rebuilt state equals, and so do the decisions made again."""
    world = World()
    world.apply_object("WorkloadPriorityClass", "high", value=10)
    world.apply_object("Configuration", "default", spec={"retainFinishedJobsSeconds": 3600})
    play(world, ("JobSubmitted", "a", {}), settle=True)
    for action, settle in history:
        play(world, action, settle=settle)
    world.settle()
    validate(world)
    world.verify()


def validate(world: World) -> None:
    """What holds in every settled state."""
    state = world.state
    assert {job.record.key: key for key, job in state.jobs.items()} == {
        key: job.key for key, job in state.by_workload.items()
    }
    assert not set(state.jobs) & set(state.finished)
    assert {f.workload: key for key, f in state.finished.items()} == state.finished_workloads
    claims = {(job.executor, key) for key, job in state.jobs.items() if job.executor}
    assert claims == {(executor, key) for executor, keys in state.claimed.items() for key in keys}
    assert not state.todo
    assert not state.presence
    # Only what must wait for a job to stop may still be open.
    for key in state.inbox:
        assert state.jobs[key].stops
    assert set(state.inbox_of) == {seq for queue in state.inbox.values() for seq in queue}


@QUIET
@given(st.lists(st.tuples(actions, st.booleans()), max_size=30), st.data())
def test_a_snapshot_goes_on_as_the_state_would(
    history: list[tuple[Action, bool]], data: st.DataObject
) -> None:
    """Cut anywhere a settled history can be: the loaded state ends where the live one does."""
    world = World()
    world.apply_object("WorkloadPriorityClass", "high", value=10)
    play(world, ("JobSubmitted", "a", {}), settle=True)
    play(world, ("admit", "a", {}), settle=True)
    cut = data.draw(st.integers(0, len(history)))
    for action, settle in history[:cut]:
        play(world, action, settle=settle)
    world.settle()
    other = world.successor()
    for action, settle in history[cut:]:
        play(world, action, settle=settle)
        play(other, action, settle=settle)
    world.settle()
    other.settle()
    assert world.service.decider.dump(world.state) == other.service.decider.dump(other.state)
