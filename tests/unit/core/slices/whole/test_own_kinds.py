"""Jobs of teams' kinds: read by the JobKind of the moment, and by that for as long as they live."""

from typing import Any

import msgspec

from sluice.events.base import Event
from sluice.events.config import ObjectDeleted
from sluice.protocol.dispatch import DispatchEntry
from tests.support.own_kinds import job_kind, mapping, simulation
from tests.support.slices_world import World, created, names, refused


def describe(world: World, **changes: Any) -> list[Event]:
    whole = job_kind(**changes)
    return world.apply_object("JobKind", whole["metadata"]["name"], spec=whole["spec"])


def forget(world: World) -> list[Event]:
    world.put(ObjectDeleted(cause=0, kind="JobKind", name="simulations.lab.example.org"))
    return world.settle()


def submit(world: World, name: str = "a", message_id: str = "", **spec: Any) -> list[Event]:
    return world.job("JobSubmitted", simulation(name, **spec), name, message_id=message_id)


def sets(world: World, name: str = "a") -> list[tuple[str, int, dict[str, int]]]:
    return [(pods.name, pods.count, pods.requests) for pods in world.state_of(name).record.pod_sets]


ONE_SET = mapping(podSets=[{"name": "coordinator", "template": "spec.coordinator"}])


def test_a_job_is_read_by_its_kind_and_its_workload_says_how(world: World) -> None:
    """The mapping is in the log with the job, and executors are told of it."""
    describe(world)

    record = created(submit(world)).workload

    assert sets(world) == [("coordinator", 1, {"cpu": 1000}), ("fine", 2, {"cpu": 2000})]
    assert msgspec.to_builtins(record.mapping) == mapping()
    world.admit()
    entry = world.dispatch()
    assert entry is not None
    assert entry.mapping == record.mapping
    assert msgspec.json.decode(msgspec.json.encode(entry), type=DispatchEntry).mapping == record.mapping


def test_without_a_kind_its_jobs_are_refused(world: World) -> None:
    """Before it is described, and when it is deleted; versions that it does not name, too."""
    (unknown,) = refused(submit(world))
    assert unknown.startswith('kind: Unsupported value: "Simulation"')
    describe(world)
    other = simulation() | {"apiVersion": "lab.example.org/v2"}
    assert len(refused(world.job("JobSubmitted", other))) == 1
    assert names(submit(world)) == ["WorkloadCreated"]
    forget(world)
    assert len(refused(submit(world, "b"))) == 1


def test_no_manifest_brings_a_mapping_of_its_own(world: World) -> None:
    """Who submits cannot say that a job asks for less than the kind's mapping finds in it."""
    describe(world)
    own = simulation() | {"mapping": ONE_SET}
    assert refused(world.job("JobSubmitted", own)) == ["mapping: Unknown field"]


def test_wrong_fields_are_named_as_they_were_written(world: World) -> None:
    describe(world)
    wrong = simulation(nodes="two", ttlSecondsAfterFinished="soon")
    wrong["spec"]["coordinator"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "-1"
    assert [text.split(": ")[0] for text in refused(world.job("JobSubmitted", wrong))] == [
        "spec.ttlSecondsAfterFinished",
        "spec.grids[0].nodes",
        "spec.coordinator.spec.containers[0].resources.requests[cpu]",
    ]


def test_an_edit_of_the_kind_changes_no_job_that_lives(world: World) -> None:
    """Its edits are read as it was; a new job, also of its name, as the kind is by then."""
    describe(world)
    submit(world)
    describe(world, mapping=ONE_SET)

    assert names(submit(world)) == ["InputsIgnored"]
    submit(world, nodes=5)
    assert sets(world)[1] == ("fine", 5, {"cpu": 2000})
    submit(world, "new")
    assert [name for name, _, _ in sets(world, "new")] == ["coordinator"]

    world.job("JobDeleted", {})
    submit(world)
    assert [name for name, _, _ in sets(world)] == ["coordinator"]


def test_a_job_outlives_its_kind(world: World) -> None:
    """It can be edited, stopped and started by the mapping that it has, also after a restart."""
    describe(world)
    submit(world)
    world.admit()
    forget(world)
    assert "JobSuspended" in names(submit(world, nodes=3, message_id="edit"))

    other = world.successor()
    for each in (world, other):
        # What is being stopped comes again with the new manifest, read as the old one was.
        entry = each.dispatch()
        assert entry is not None
        each.job("JobStopped", {"attempt": entry.attempt, "uid": entry.uid})
        assert sets(each)[1] == ("fine", 3, {"cpu": 2000})
    assert other.service.decider.dump(other.state) == world.service.decider.dump(world.state)


def test_what_waits_is_read_as_its_job_is_when_it_is_answered(world: World) -> None:
    """A submission that waits until a deleted job has stopped is one of a new job: read as kinds are then."""
    describe(world)
    submit(world)
    world.admit()
    entry = world.dispatch()
    assert entry is not None
    world.job("JobDeleted", {})
    assert names(submit(world, message_id="again")) == []
    describe(world, mapping=ONE_SET)
    other = world.successor()
    for each in (world, other):
        made = each.job("JobStopped", {"attempt": entry.attempt, "uid": entry.uid})
        assert "WorkloadCreated" in names(made)
        assert [name for name, _, _ in sets(each)] == ["coordinator"]
    assert other.service.decider.dump(other.state) == world.service.decider.dump(world.state)


def test_whether_it_may_run_now_is_no_edit(world: World) -> None:
    """`suspend` names the fields that are the system's."""
    describe(world)
    submit(world)
    assert names(submit(world, message_id="other", paused=False)) == ["InputsIgnored"]


def test_it_is_kept_as_long_as_its_field_says(world: World) -> None:
    describe(world)
    submit(world, ttlSecondsAfterFinished=7)
    world.admit()
    entry = world.dispatch()
    assert entry is not None
    world.job("JobFinished", {"attempt": entry.attempt, "uid": entry.uid, "success": True})
    finished = world.state.finished[entry.job]
    assert finished.due == finished.finished_at + 7_000_000
