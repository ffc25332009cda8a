"""What becomes of jobs that do not resize, from submission to deletion."""

from typing import Any

import pytest

from sluice.core.slices.decider import PORTION
from sluice.core.workload.inputs import heard
from sluice.events.base import Event, JobKey
from sluice.events.codec import encode_message
from sluice.events.envelope import Message
from sluice.events.job import Away, OnLoss
from sluice.events.scheduler import Admitted, Evicted
from sluice.events.slices import (
    InputsIgnored,
    JobClaimed,
    JobResumed,
    JobSuspended,
    Rejected,
    WorkloadFinished,
    WorkloadStopped,
)
from tests.support.slices_world import START, World, created, manifest, names


def running(world: World, name: str = "a", **fields: Any) -> World:
    world.submit(name, **fields)
    world.admit(name)
    return world


def test_submission_makes_a_workload(world: World) -> None:
    """The workload has the job's queue, pods and requests in base units, and Kueue's kind of name."""
    record = created(world.submit(parallelism=3, cpu=2)).workload
    assert record.name.startswith("job-a-")
    assert len(record.name) == len("job-a-") + 5
    assert (record.namespace, record.queue_name, record.created_at) == ("default", "main", START)
    assert [(p.name, p.count, p.requests) for p in record.pod_sets] == [("main", 3, {"cpu": 2000})]
    assert record.job is not None
    assert record.job.key == "default/a"
    assert record.uid != record.job.uid


def test_admission_resumes_the_job(world: World) -> None:
    """Admitted leads to JobResumed and an entry with counts and flavors; reserved quota alone to nothing."""
    world.apply_object("ResourceFlavor", "spot", spec={"nodeLabels": {"pool": "spot"}})
    world.submit(parallelism=3)
    assert world.reserve(flavor="spot") == []
    assert world.dispatch() is None
    workload = world.workload()
    events = world.admit(flavor="spot")
    assert events == [JobResumed(cause=world.seq, job=JobKey("default/a"), workload=workload, attempt=1)]
    entry = world.dispatch()
    assert entry is not None
    assert (entry.state, entry.attempt, entry.workload, entry.stop) == ("Running", 1, workload, False)
    pods = entry.pod_sets[0]
    assert (pods.name, pods.count, pods.ungated) == ("main", 3, 3)
    assert (pods.flavors, pods.node_selector) == ({"cpu": "spot"}, {"pool": "spot"})


def test_manifest_can_be_found_from_the_entry(world: World) -> None:
    """The entry names the sequence of the submission in force."""
    world.submit("b")
    running(world)
    entry = world.dispatch()
    assert entry is not None
    assert world.log[entry.manifest_seq - 1].suffix == "job.default.a"


def test_finish(world: World) -> None:
    """JobFinished ends the workload, and nothing is left to dispatch."""
    running(world)
    workload = world.workload()
    events = world.job("JobFinished", {"attempt": 1})
    assert events == [
        WorkloadFinished(
            cause=world.seq, workload=workload, reason="Succeeded", message="Job finished successfully"
        )
    ]
    assert world.dispatch() is None


def test_failure_is_a_finish(world: World) -> None:
    running(world)
    (event,) = world.job("JobFinished", {"attempt": 1, "success": False, "message": "exit code 3"})
    assert isinstance(event, WorkloadFinished)
    assert (event.reason, event.message) == ("Failed", "exit code 3")


def test_eviction_handshake(world: World) -> None:
    """Evicted -> JobSuspended; JobStopped -> WorkloadStopped; the next admission is attempt 2 (G9)."""
    running(world)
    workload = world.workload()
    events = world.evict()
    assert events == [
        JobSuspended(
            cause=world.seq,
            job=JobKey("default/a"),
            workload=workload,
            attempt=1,
            reason="Preempted",
            message="why",
        )
    ]
    entry = world.dispatch()
    assert entry is not None
    assert (entry.state, entry.stop, entry.reason) == ("Suspended", True, "Preempted")
    events = world.job("JobStopped", {"attempt": 1})
    assert events == [WorkloadStopped(cause=world.seq, workload=workload)]
    entry = world.dispatch()
    assert entry is not None
    assert (entry.state, entry.stop) == ("Suspended", False)
    world.release()
    (event,) = world.admit()
    assert isinstance(event, JobResumed)
    assert event.attempt == 2


def test_eviction_before_the_start_is_answered_at_once(world: World) -> None:
    """What was admitted and evicted before anybody decided has no pods: nobody else could say so."""
    world.submit()
    world.reserve()
    world.put(Admitted(cause=world.seq, workload=world.workload()))
    world.put(Evicted(cause=world.seq, workload=world.workload(), reason="Preempted"))
    assert world.settle() == [WorkloadStopped(cause=world.seq, workload=world.workload())]
    assert world.dispatch() is None


def test_eviction_without_admission_needs_no_answer(world: World) -> None:
    """Only reserved quota is released by the scheduler itself, in the same step."""
    world.submit()
    world.reserve()
    assert world.evict(reason="AdmissionCheck") == []
    assert world.release() == []


def test_finish_wins_over_eviction(world: World) -> None:
    """A job that finishes while it is told to stop has finished."""
    running(world)
    world.evict()
    assert names(world.job("JobFinished", {"attempt": 1})) == ["WorkloadFinished"]


def test_unexpected_stop_requeues(world: World) -> None:
    """An executor that had to stop says so; the attempt is over, and the answer to a crossing eviction."""
    running(world)
    (event,) = world.job("JobStopped", {"attempt": 1, "message": "agent restarted"})
    assert isinstance(event, WorkloadStopped)
    assert (event.reason, event.message) == ("NodeFailures", "agent restarted")
    assert world.evict() == []
    world.release()
    assert names(world.admit()) == ["JobResumed"]


def test_pods_ready(world: World) -> None:
    """Readiness is told when it changes; the first word of an executor is its claim."""
    running(world)
    assert names(world.job("JobPodsReady", {"attempt": 1, "executor": "x", "ready": False})) == ["JobClaimed"]
    assert names(world.job("JobPodsReady", {"attempt": 1, "executor": "x"})) == ["WorkloadPodsReady"]
    assert names(world.job("JobPodsReady", {"attempt": 1, "executor": "x"})) == ["InputsIgnored"]
    assert names(world.job("JobPodsReady", {"attempt": 1, "ready": False})) == ["WorkloadPodsReady"]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_late_copy_of_what_an_executor_said_says_nothing_new(*, restarted: bool) -> None:
    """The server forgets ids after a while; by then the pods are ready, or others have been since."""
    world = World()
    running(world)
    claim = {"attempt": 1, "executor": "x", "ready": False}
    assert names(world.job("JobPodsReady", claim, message_id="claim")) == ["JobClaimed"]
    assert names(world.job("JobPodsReady", {"attempt": 1, "executor": "x"}, message_id="ready")) == [
        "WorkloadPodsReady"
    ]
    if restarted:
        world.service.restart()
    assert names(world.job("JobPodsReady", claim, message_id="claim")) == ["InputsIgnored"]
    assert names(world.job("JobPodsReady", claim, message_id="not any more")) == ["WorkloadPodsReady"]
    world.verify()


def test_reclaimable_pods_only_grow(world: World) -> None:
    """Pods that ended stay ended: a lower number is an older message."""
    running(world, parallelism=3)
    assert names(world.job("JobPodsReclaimable", {"pods": {"main": 2}})) == ["ReclaimablePodsUpdated"]
    assert names(world.job("JobPodsReclaimable", {"pods": {"main": 1}})) == ["InputsIgnored"]


def test_lost_agent_ends_its_attempts(world: World) -> None:
    """Its jobs are stopped with NodeFailures, others are not, and what it says later is stale."""
    assert names(world.agent("Seen", "x")) == ["ExecutorSeen"]
    for name in ("a", "b", "c"):
        running(world, name)
        executor = "y" if name == "c" else "x"
        world.job("JobPodsReady", {"attempt": 1, "executor": executor}, name)
    events = world.agent("Lost", "x")
    assert names(events) == ["WorkloadStopped", "WorkloadStopped", "ExecutorLost"]
    assert {e.reason for e in events if isinstance(e, WorkloadStopped)} == {"NodeFailures"}
    (late,) = world.job("JobFinished", {"attempt": 1})
    assert isinstance(late, InputsIgnored)
    assert late.reason == "Stale"
    entry = world.dispatch("c")
    assert entry is not None
    assert entry.state == "Running"


def test_who_is_away_keeps_its_attempts(world: World) -> None:
    """Said of who has none, or twice, it changes nothing; back, it is seen again; lost, it is not away."""
    world.agent("Seen", "x")
    assert names(world.agent("Away", "x")) == ["InputsIgnored"]
    running(world)
    claim = {"attempt": 1, "executor": "x", "ready": False, "onLoss": {"policy": "Wait"}}
    (claimed,) = world.job("JobPodsReady", claim)
    assert isinstance(claimed, JobClaimed)
    assert claimed.on_loss == OnLoss(policy="Wait")
    assert names(world.agent("Away", "x")) == ["ExecutorAway"]
    assert names(world.agent("Away", "x")) == ["InputsIgnored"]
    assert world.state_of().executor == "x"
    assert names(world.agent("Seen", "x")) == ["ExecutorSeen"]
    assert names(world.agent("Seen", "x")) == ["InputsIgnored"]
    world.agent("Away", "x")
    assert names(world.agent("Lost", "x")) == ["WorkloadStopped", "ExecutorLost"]
    assert not world.state.away
    world.verify()


def test_controllers_are_never_away() -> None:
    """A message of that kind about one is none."""
    away = encode_message(message_id="1", source="s", event_type="Away", subject="c", at=START, data=Away())
    assert heard(Message(subject="presence.controller.c", payload=away), "controller").errors
    assert not heard(Message(subject="presence.agent.c", payload=away), "agent").errors


@pytest.mark.parametrize("stopping", [False, True])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("JobPodsReady", {"ready": False}),
        ("JobPodsReady", {"ready": True}),
        ("JobStopped", {}),
        ("JobFinished", {}),
    ],
)
def test_an_attempt_is_whose_claim_is_the_first_in_the_log(
    world: World, kind: str, said: dict[str, Any], together: bool, stopping: bool
) -> None:
    """What another executor says of it, condition or none, is refused and told; its owner's loss ends it."""
    running(world)
    other = {"attempt": 1, "executor": "c", **said}
    world.message("job.default.a", "JobPodsReady", {"attempt": 1, "executor": "b", "ready": False})
    if stopping:
        world.evict()
    elif not together:
        world.settle()
    (refused,) = [each for each in world.job(kind, other) if isinstance(each, Rejected)]
    assert [error.field for error in refused.errors] == ["executor"]
    assert 'taken by "b"' in refused.errors[0].detail
    assert world.state_of().executor == "b"
    assert names(world.agent("Lost", "c"))[:1] != ["WorkloadStopped"]
    assert names(world.agent("Lost", "b")) == ["WorkloadStopped", "ExecutorLost"]
    world.release()
    assert names(world.admit()) == ["JobResumed"]
    taken_over = {**other, "attempt": 2}
    assert "Rejected" not in names(world.job(kind, taken_over))


def test_who_gives_no_name_speaks_for_the_owner(world: World) -> None:
    """As tools and simple executors do; and whoever runs jobs by itself knows of no attempts."""
    running(world)
    running(world, "b")
    for name in ("a", "b"):
        world.job("JobPodsReady", {"attempt": 1, "executor": "x"}, name)
    assert names(world.job("JobStopped", {"attempt": 1})) == ["WorkloadStopped"]
    assert names(world.job("JobFinished", {"executor": "y"}, "b")) == ["WorkloadFinished"]


@pytest.mark.parametrize("together", [True, False])
def test_claim_and_loss_in_one_batch(world: World, together: bool) -> None:
    """A claim that came before the loss is over with it, and one that came after is not.

    Whether they are decided together or one by one.
    """
    running(world, "a")
    running(world, "b")
    claim = {"attempt": 1, "executor": "x"}
    events: list[Event] = []
    for subject, kind, data in (
        ("job.default.a", "JobPodsReady", claim),
        ("presence.agent.x", "Lost", {}),
        ("job.default.b", "JobPodsReady", claim),
        ("presence.agent.x", "Seen", {}),
    ):
        world.message(subject, kind, data)
        if not together:
            events += world.settle()
    events += world.settle()
    said = ["JobClaimed", "WorkloadPodsReady"]
    assert names(events) == [*said, "WorkloadStopped", "ExecutorLost", *said, "ExecutorSeen"]
    assert [world.state_of(name).executor for name in ("a", "b")] == ["", "x"]
    world.verify()


def test_delete_in_every_phase(world: World) -> None:
    """At once when nothing runs, after the handshake when something does."""
    world.submit("pending")
    assert names(world.job("JobDeleted", {}, "pending")) == ["WorkloadDeleted"]

    running(world, "running")
    assert names(world.job("JobDeleted", {}, "running")) == ["JobSuspended"]
    assert names(world.job("JobDeleted", {}, "running")) == ["InputsIgnored"]
    assert names(world.job("JobStopped", {"attempt": 1}, "running")) == ["WorkloadDeleted"]

    running(world, "stopping")
    world.evict("stopping")
    assert names(world.job("JobDeleted", {}, "stopping")) == ["JobSuspended"]
    assert names(world.job("JobStopped", {"attempt": 1}, "stopping")) == ["WorkloadDeleted"]

    running(world, "finished")
    world.job("JobFinished", {}, "finished")
    assert names(world.job("JobDeleted", {}, "finished")) == ["WorkloadDeleted"]

    running(world, "late")
    world.job("JobDeleted", {}, "late")
    assert names(world.job("JobFinished", {"attempt": 1}, "late")) == ["WorkloadFinished", "WorkloadDeleted"]
    assert not world.state.jobs
    assert not world.state.finished
    assert not world.state.by_workload


@pytest.mark.parametrize(
    ("end", "found"),
    [
        ("JobStopped", ["WorkloadDeleted", "WorkloadCreated"]),
        ("JobFinished", ["WorkloadFinished", "WorkloadDeleted", "WorkloadCreated"]),
    ],
)
def test_deleted_job_may_be_submitted_again_while_it_stops(world: World, end: str, found: list[str]) -> None:
    """The new job waits for the old one's end, stopped or finished by itself, and is another one."""
    running(world)
    old = world.state_of().uid
    world.job("JobDeleted", {})
    assert world.submit() == []
    assert names(world.job(end, {"attempt": 1})) == found
    assert world.state_of().uid != old


def test_deletion_overtakes_what_waits(world: World) -> None:
    """Submitted while stopping, then deleted: it stays deleted."""
    running(world)
    world.evict()
    assert world.submit(parallelism=5) == []
    events = world.job("JobDeleted", {})
    assert names(events) == ["InputsIgnored", "JobSuspended"]
    assert names(world.job("JobStopped", {"attempt": 1})) == ["WorkloadDeleted"]


def test_finished_job_may_run_again(world: World) -> None:
    """Submitted again with another message, a finished job is a new one; the old workload goes."""
    running(world)
    old = world.workload()
    world.job("JobFinished", {"attempt": 1})
    events = world.submit()
    assert names(events) == ["WorkloadCreated", "WorkloadDeleted"]
    assert created(events).workload.key != old
    world.admit()
    # A report of the first incarnation is not taken for one of the second.
    stale = world.job("JobFinished", {"attempt": 1, "uid": "00000000-0000-0001-8000-000000000000"})
    assert names(stale) == ["InputsIgnored"]


def test_own_kind(world: World) -> None:
    """The plain Job for users without Kubernetes needs no Kubernetes."""
    own = {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "a"},
        "spec": {"queueName": "main", "command": ["true"], "replicas": 2, "resources": {"cpu": 1}},
    }
    record = created(world.job("JobSubmitted", own)).workload
    assert record.queue_name == "main"
    assert record.pod_sets[0].count == 2


def test_priority_comes_from_the_class(world: World) -> None:
    world.apply_object("WorkloadPriorityClass", "high", value=1000)
    record = created(world.submit(priority_class="high")).workload
    assert (record.priority, record.priority_class) == (1000, "high")


def test_retention(world: World) -> None:
    """Finished jobs are forgotten for their age, their own time to live, or their number."""
    world.apply_object(
        "Configuration", "default", spec={"retainFinishedJobsSeconds": 60, "retainFinishedJobsCount": 2}
    )
    for name in ("a", "b", "c"):
        running(world, name)
        events = world.job("JobFinished", {}, name)
    assert names(events) == ["WorkloadFinished", "WorkloadDeleted"]
    assert list(world.state.finished) == ["default/b", "default/c"]
    running(world, "d", ttlSecondsAfterFinished=5)
    world.job("JobFinished", {}, "d")
    assert world.deadline() == START + 5_000_000
    world.now = START + 5_000_000
    assert names(world.settle()) == ["WorkloadDeleted"]
    assert list(world.state.finished) == ["default/c"]
    assert world.deadline() == START + 60_000_000
    world.now = START + 60_000_000
    assert names(world.settle()) == ["WorkloadDeleted"]
    assert world.deadline() is None


def test_many_messages_are_decided_together(world: World) -> None:
    """One step holds the consequences of a whole portion."""
    for number in range(PORTION):
        payload = encode_message(
            message_id=str(number),
            source="t",
            event_type="JobSubmitted",
            subject="",
            at=START,
            data=manifest(f"j{number}"),
        )
        world.append(f"job.default.j{number}", payload)
    world.settle()
    assert len(world.steps) == 1
