"""A job submitted again, or resized: what may change when, and how."""

from typing import Any

import pytest

from sluice.core.slices.naming import workload_name
from sluice.core.slices.state import Phase
from sluice.events.base import JobKey, PodSetAssignment, WorkloadKey
from sluice.events.scheduler import Admitted, QuotaReserved, WorkloadDeactivated
from sluice.events.slices import InputsIgnored, JobSuspended, WorkloadUpdated
from sluice.events.variants import ParentAdmitted, ParentEvicted
from tests.support.slices_world import QUEUE, World, created, manifest, names, refused


def running(world: World, **fields: Any) -> World:
    world.submit(**fields)
    world.admit()
    return world


@pytest.mark.parametrize("state", ["pending", "running", "finished"])
def test_the_same_message_again_changes_nothing(world: World, state: str) -> None:
    """A CloudEvent that is delivered twice is taken once, whatever has become of its job."""
    world.submit(message_id="m")
    if state != "pending":
        world.admit()
    if state == "finished":
        world.job("JobFinished", {})
    (event,) = world.submit(message_id="m")
    assert event == InputsIgnored(cause=world.seq, seqs=(world.seq,), reason="Duplicate")


def test_the_same_manifest_again_changes_nothing(world: World) -> None:
    """Also with another message id, other spacing, and another `suspend`, which is not the user's."""
    world.submit()
    assert names(world.submit()) == ["InputsIgnored"]
    again = manifest()
    again["spec"]["suspend"] = False
    assert names(world.job("JobSubmitted", again)) == ["InputsIgnored"]
    assert len(world.state.jobs) == 1


def test_pending_job_changes_in_place(world: World) -> None:
    """Size, queue, priority, command: without quota nothing has to make way."""
    world.apply_object("WorkloadPriorityClass", "high", value=7)
    world.submit()
    workload = world.workload()
    (event,) = world.submit(parallelism=5, queue="other", priority_class="high", cpu=3)
    assert isinstance(event, WorkloadUpdated)
    assert (event.queue_name, event.priority, event.priority_class) == ("other", 7, "high")
    assert event.pod_sets is not None
    assert (event.pod_sets[0].count, event.pod_sets[0].requests) == (5, {"cpu": 3000})
    assert world.workload() == workload
    (event,) = world.submit(parallelism=5, queue="other", priority_class="high", cpu=3, command=["false"])
    assert event == WorkloadUpdated(cause=world.seq, workload=workload)
    assert world.state_of().manifest_seq == world.seq


def test_reserved_job_gets_a_new_workload(world: World) -> None:
    """Quota was reserved for another size: the workload is exchanged, under a new name."""
    world.submit()
    world.reserve()
    old = world.workload()
    events = world.submit(parallelism=2)
    assert names(events) == ["WorkloadCreated", "WorkloadDeleted"]
    assert world.workload() != old


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"priority_class": "high"}, id="priority class"),
        pytest.param({"labels": {"team": "x"}}, id="a label of the job"),
        pytest.param({"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "60"}}, id="execution time"),
        pytest.param({"annotations": {"kueue.x-k8s.io/priority-boost": "5"}}, id="an annotation"),
        pytest.param({"backoffLimit": 3}, id="what is no matter of its pods"),
    ],
)
@pytest.mark.parametrize("state", ["pending", "reserved", "running"])
def test_metadata_is_changed_in_place(world: World, state: str, change: dict[str, Any]) -> None:
    """A reservation, and with it what checks have approved, is not lost for what neither is about."""
    world.apply_object("WorkloadPriorityClass", "high", value=7)
    world.submit()
    if state != "pending":
        world.reserve()
    if state == "running":
        world.put(Admitted(cause=world.seq, workload=world.workload()))
        world.settle()
    workload = world.workload()
    metadata = {name: change[name] for name in ("labels", "annotations") if name in change}
    made = manifest(**{name: value for name, value in change.items() if name not in metadata})
    for name, marks in metadata.items():
        made["metadata"][name] = {**made["metadata"].get(name, {}), **marks}
    (event,) = world.job("JobSubmitted", made)
    assert isinstance(event, WorkloadUpdated)
    assert (event.workload, event.pod_sets) == (workload, None)
    assert world.workload() == workload
    assert world.state_of().manifest_seq == world.seq
    assert world.state_of().reserved == (state != "pending")


@pytest.mark.parametrize("change", [{"command": ["false"]}, {"cpu": 2}, {"parallelism": 2}])
def test_other_pods_than_quota_was_reserved_for(world: World, change: dict[str, Any]) -> None:
    """What checks have approved was these pods: other ones are another workload."""
    world.submit()
    world.reserve()
    assert names(world.submit(**change)) == ["WorkloadCreated", "WorkloadDeleted"]


def test_edit_that_crosses_a_reservation(world: World) -> None:
    """Quota reserved for the old size after the edit: the scheduler had not seen it, so the workload goes."""
    world.submit()
    before = world.state_of().record
    world.submit(parallelism=3)
    old = PodSetAssignment(name="main", count=1, flavors={"cpu": "f"}, usage={"cpu": 1000})
    world.put(QuotaReserved(cause=1, workload=before.key, cluster_queue="cq", pod_sets=(old,)))
    world.put(Admitted(cause=1, workload=before.key))
    events = world.settle()
    assert names(events) == ["WorkloadCreated", "WorkloadDeleted"]
    assert created(events).workload.pod_sets[0].count == 3
    assert world.dispatch() is None


def test_running_job_restarts_for_another_size(world: World) -> None:
    """Stopped, its workload exchanged, queued again; the old attempt's number is not used again."""
    running(world)
    old = world.workload()
    (event,) = world.submit(parallelism=2)
    assert event == JobSuspended(
        cause=world.seq,
        job=JobKey("default/a"),
        workload=old,
        attempt=1,
        reason="NoMatchingWorkload",
        message="No matching Workload",
    )
    events = world.job("JobStopped", {"attempt": 1})
    assert names(events) == ["WorkloadCreated", "WorkloadDeleted"]
    assert created(events).workload.pod_sets[0].count == 2
    world.admit()
    entry = world.dispatch()
    assert entry is not None
    assert (entry.attempt, entry.pod_sets[0].count) == (2, 2)


def test_scaling(world: World) -> None:
    """JobScaled is an edit of the counts: in place, or by restart; older generations are stale."""
    world.submit()
    (event,) = world.job("JobScaled", {"podSets": {"main": 4}, "generation": 2})
    assert isinstance(event, WorkloadUpdated)
    assert names(world.job("JobScaled", {"podSets": {"main": 4}})) == ["InputsIgnored"]
    (event,) = world.job("JobScaled", {"podSets": {"main": 1}, "generation": 1})
    assert isinstance(event, InputsIgnored)
    assert event.reason == "Stale"
    world.admit()
    assert names(world.job("JobScaled", {"podSets": {"main": 2}})) == ["JobSuspended"]
    events = world.job("JobStopped", {"attempt": 1})
    assert created(events).workload.pod_sets[0].count == 2
    assert not world.state.inbox


def test_several_edits_while_stopping(world: World) -> None:
    """They are taken in order when the job has stopped: the last one counts."""
    running(world)
    world.evict()
    assert world.submit(parallelism=2) == []
    assert world.submit(parallelism=3) == []
    assert world.job("JobScaled", {"podSets": {"main": 4}}) == []
    world.verify()
    before = world.workload()
    world.job("JobStopped", {"attempt": 1})
    assert world.state_of().record.pod_sets[0].count == 4
    assert world.workload() == before
    assert not world.state.inbox


def test_a_flood_of_edits_while_stopping(world: World) -> None:
    """What waits is bounded: a job that never stops must not fill the memory."""
    running(world)
    world.evict()
    for number in range(32):
        assert world.submit(parallelism=2 + number % 2) == []
    (error,) = refused(world.submit(parallelism=9))
    assert "32 changes wait" in error
    assert names(world.job("JobStopped", {"attempt": 1}))[0] == "WorkloadStopped"
    assert not world.state.inbox


def test_finish_while_an_edit_waits(world: World) -> None:
    """The job is over: the edit is not taken for a new job."""
    running(world)
    world.submit(parallelism=2)
    assert names(world.job("JobFinished", {"attempt": 1})) == ["InputsIgnored", "WorkloadFinished"]
    assert not world.state.inbox


def test_priority_of_a_running_job_may_change(world: World) -> None:
    world.apply_object("WorkloadPriorityClass", "high", value=7)
    running(world)
    (event,) = world.submit(priority_class="high")
    assert isinstance(event, WorkloadUpdated)
    assert (event.priority, event.pod_sets) == (7, None)


CHANGED: dict[str, dict[str, Any]] = {
    "a label": {"labels": {"team": "y"}},
    "an annotation": {"annotations": {"kueue.x-k8s.io/priority-boost": "5"}},
    "what is no matter of its pods": {"backoffLimit": 3},
    "its size": {"parallelism": 3},
    "its pods": {"command": ["false"]},
}


@pytest.mark.parametrize("elastic", [False, True], ids=["plain", "elastic"])
@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
@pytest.mark.parametrize("state", ["pending", "reserved", "running", "stopped and inactive"])
def test_a_new_value_of_a_class_is_for_new_jobs(
    world: World, state: str, change: dict[str, Any], elastic: bool
) -> None:
    """As in Kueue: a job keeps the priority that it has until it names another class, whatever is edited.

    Likewise when the class was deleted and made again, and for all workloads that the job gets since.
    """

    def made(change: dict[str, Any], priority_class: str = "top") -> dict[str, Any]:
        metadata = {name: change[name] for name in ("labels", "annotations") if name in change}
        fields = {name: value for name, value in change.items() if name not in metadata}
        job = manifest(priority_class=priority_class, **fields)
        annotations = {"kueue.x-k8s.io/elastic-job": "true"} if elastic else {}
        job["metadata"]["labels"] |= metadata.get("labels", {})
        job["metadata"]["annotations"] = annotations | metadata.get("annotations", {})
        return job

    world.apply_object("WorkloadPriorityClass", "top", value=2000)
    world.apply_object("WorkloadPriorityClass", "low", value=1)
    world.job("JobSubmitted", made({}))
    if state == "reserved":
        world.reserve()
    elif state != "pending":
        world.admit()
    if state == "stopped and inactive":
        world.job("JobDeactivated", {})
        world.evict()
        world.job("JobStopped", {"attempt": 1})
        world.release()
    world.apply_object("WorkloadPriorityClass", "top", value=5)
    if state == "running" and "command" in change:
        change = {"parallelism": 3}
    world.job("JobSubmitted", made(change))
    if world.state_of().phase is Phase.STOPPING:
        world.job("JobStopped", {"attempt": 1})

    def priorities() -> set[int]:
        job = world.state_of()
        return {record.priority for record in (job.record, job.pending) if record is not None}

    assert priorities() == {2000}
    world.job("JobSubmitted", made(change, "low"))
    assert priorities() == {1}
    world.job("JobSubmitted", made(change))
    assert priorities() == {5}


def test_what_must_not_change(world: World) -> None:
    """Queue with quota, pods and kind while running, constraints with quota: refused with the field."""
    running(world)
    assert refused(world.submit(queue="other")) == [
        f'metadata.labels[{QUEUE}]: Invalid value: "other": field is immutable'
    ]
    assert refused(world.submit(command=["false"])) == [
        "spec.template: Forbidden: field is immutable while the job is running"
    ]
    constrained = manifest()
    constrained["metadata"]["annotations"] = {"kueue.x-k8s.io/cannot-preempt": "true"}
    assert refused(world.job("JobSubmitted", constrained)) == [
        'metadata.annotations[kueue.x-k8s.io/cannot-preempt]: Invalid value: "true": field is immutable'
    ]
    own = {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "a"},
        "spec": {"queueName": "main", "command": ["true"]},
    }
    assert any(error.startswith("spec: Forbidden") for error in refused(world.job("JobSubmitted", own)))
    entry = world.dispatch()
    assert entry is not None
    assert entry.state == "Running"


OWN = {"apiVersion": "sluice.dev/v1alpha1", "kind": "Job", "metadata": {"name": "a"}}
PODS = [{"name": "one", "command": ["true"], "replicas": 2}]


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        ({"command": ["true"]}, {"queueName": "other"}, "spec.queueName"),
        ({"command": ["true"]}, {"command": ["false"]}, "spec"),
        ({"podSets": PODS}, {"podSets": [{**PODS[0], "command": ["false"]}]}, "spec.podSets"),
    ],
)
def test_a_refused_change_names_a_field_of_its_manifest(
    world: World, before: dict[str, Any], after: dict[str, Any], field: str
) -> None:
    """Our own kind has neither the label nor a pod template."""
    spec = {"queueName": "main", **before}
    world.job("JobSubmitted", {**OWN, "spec": spec})
    world.admit()
    (error,) = refused(world.job("JobSubmitted", {**OWN, "spec": {**spec, **after}}))
    assert error.startswith(f"{field}: ")
    assert "immutable" in error


def test_deactivated_job_is_submitted_again(world: World) -> None:
    """What the system has deactivated runs again when its owner says so, by another submission."""
    world.submit()
    world.put(WorkloadDeactivated(cause=1, workload=world.workload(), reason="RequeuingLimitExceeded"))
    assert world.settle() == []
    (event,) = world.submit()
    assert event == WorkloadUpdated(cause=world.seq, workload=world.workload(), active=True)
    assert names(world.submit()) == ["InputsIgnored"]


def test_a_new_workload_never_has_the_old_ones_name() -> None:
    """Five digits collide now and then; the old workload's deletion would then take the new one away."""
    old = workload_name("Job", "batch", "a", "uid")
    assert workload_name("Job", "batch", "a", "uid", taken=old) != old
    assert len({workload_name("Job", "batch", "a", "uid", revision) for revision in range(1, 50)}) == 49
    assert len(workload_name("Job", "batch", "x" * 300, "uid")) == 253


@pytest.mark.parametrize("through_variant", [False, True])
def test_elastic_job_with_the_quota_of_a_variant_is_stopped_to_grow(
    world: World, through_variant: bool
) -> None:
    """Concurrent admission and workload slices do not go together; with its own quota the job goes on."""

    def elastic(parallelism: int) -> dict[str, Any]:
        job = manifest(parallelism=parallelism)
        job["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
        return job

    gates = {"featureGates": {"ElasticJobsViaWorkloadSlices": True}}
    world.apply_object("Configuration", "default", spec=gates)
    world.job("JobSubmitted", elastic(1))
    if through_variant:
        assigned = PodSetAssignment(name="main", count=1, flavors={"cpu": "default"}, usage={"cpu": 1000})
        world.put(
            ParentAdmitted(
                cause=world.seq,
                workload=world.workload(),
                variant=WorkloadKey("default/variant"),
                cluster_queue="cq",
                pod_sets=(assigned,),
            )
        )
        world.settle()
    else:
        world.admit()
    events = world.job("JobSubmitted", elastic(2))
    if through_variant:
        assert names(events) == ["JobSuspended"]
    else:
        assert created(events).workload.replaces == world.workload()


def test_a_variant_with_quota_for_what_the_job_was_starts_nothing(world: World) -> None:
    """Its scheduler had not heard of the edit; also when another variant had been admitted since."""

    def admitted(milli: int) -> None:
        assigned = PodSetAssignment(name="main", count=1, flavors={"cpu": "default"}, usage={"cpu": milli})
        world.put(
            ParentAdmitted(
                cause=world.seq,
                workload=world.workload(),
                variant=WorkloadKey("default/variant"),
                cluster_queue=QUEUE,
                pod_sets=(assigned,),
            )
        )

    world.submit(cpu=3)
    world.submit(cpu=2)
    admitted(2000)
    assert names(world.settle()) == ["JobResumed"]
    evicted = ParentEvicted(
        cause=world.seq,
        workload=world.workload(),
        variant=WorkloadKey("default/variant"),
        reason="VariantEvicted",
        message="Admitted variant was evicted",
    )
    world.put(evicted)
    world.settle()
    world.job("JobStopped", {"attempt": 1})
    admitted(3000)
    assert names(world.settle()) == ["WorkloadCreated", "WorkloadDeleted"]
