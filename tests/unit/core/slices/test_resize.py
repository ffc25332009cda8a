"""Resizes of elastic jobs as the slice-aggregator decides them: slices, counts, refusals (WS1-WS8)."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from sluice.core.slices.responses import MAX_HELD
from sluice.core.slices.state import Phase
from sluice.events.base import Event, PodSetAssignment, WorkloadKey
from sluice.events.checks import ChecksRejected, ChecksRequested, CheckStateChanged
from sluice.events.scheduler import (
    Admitted,
    Evicted,
    QuotaReleased,
    QuotaReserved,
    WorkloadDeactivated,
    WorkloadSliceReplaced,
    WorkloadSliceWithdrawn,
)
from sluice.events.slices import ReclaimablePodsUpdated, WorkloadCreated, WorkloadPodsReady, WorkloadUpdated
from sluice.protocol.dispatch import DispatchPodSet
from tests.support.slices_world import START, World, created, manifest, names, refused

ELASTIC = "kueue.x-k8s.io/elastic-job"
SLICE_NAME = "kueue.x-k8s.io/workload-slice-name"
REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"


class Elastic(World):
    """A world with elastic jobs; slices are admitted as the scheduler does it."""

    def elastic(self, name: str = "a", *, generation: int = 0, **fields: Any) -> list[Event]:
        return self.job("JobSubmitted", elastic_manifest(name, generation=generation, **fields), name)

    def groups(self, name: str = "a", **counts: int) -> list[Event]:
        """Submit a plain job with a pod set for each of *counts*."""
        spec = {
            "queueName": "main",
            "podSets": [
                {"name": group, "replicas": n, "resources": {"cpu": 1}, "command": ["true"]}
                for group, n in counts.items()
            ],
        }
        metadata = {"name": name, "namespace": "default", "annotations": {ELASTIC: "true"}}
        job = {"apiVersion": "sluice.dev/v1alpha1", "kind": "Job", "metadata": metadata, "spec": spec}
        return self.job("JobSubmitted", job, name)

    def scale(self, name: str = "a", *, generation: int | None = None, **counts: int) -> list[Event]:
        data: dict[str, Any] = {"podSets": counts}
        if generation is not None:
            data["generation"] = generation
        return self.job("JobScaled", data, name)

    def give(self, name: str = "a", **counts: int) -> list[Event]:
        """Reserve quota for the newest slice, as it is or for *counts*; nothing is admitted yet."""
        job = self.state_of(name)
        record = job.pending or job.record
        assigned = tuple(
            PodSetAssignment(
                name=pods.name,
                count=(n := counts.get(pods.name, pods.count)),
                flavors={"cpu": "default"},
                usage={"cpu": pods.requests["cpu"] * n},
            )
            for pods in record.pod_sets
        )
        self.put(QuotaReserved(cause=self.seq, workload=record.key, cluster_queue="cq", pod_sets=assigned))
        return self.settle()

    def grow(self, name: str = "a", **counts: int) -> list[Event]:
        """Give quota to the pending slice and let it replace the old one, in one step (WS4)."""
        job = self.state_of(name)
        assert job.pending is not None
        old, new = job.record.key, job.pending.key
        self.give(name, **counts)
        self.put(Admitted(cause=self.seq, workload=new))
        self.put(WorkloadSliceReplaced(cause=self.seq, workload=old, by=new, message="Replaced"))
        return self.settle()

    def pods(self, name: str = "a") -> dict[str, tuple[int, int, int]]:
        """Return count, ungated and gated pods of each set, as dispatched."""
        entry = self.dispatch(name)
        assert entry is not None
        return {pods.name: _counts(pods) for pods in entry.pod_sets}

    def sizes(self, name: str = "a") -> list[dict[str, int]]:
        """Return the sizes of the live slices, the admitted one first."""
        job = self.state_of(name)
        live = [job.record, *([job.pending] if job.pending is not None else [])]
        return [{pods.name: pods.count for pods in record.pod_sets} for record in live]


def _counts(pods: DispatchPodSet) -> tuple[int, int, int]:
    return pods.count, pods.ungated, pods.gated


def elastic_manifest(name: str = "a", *, generation: int = 0, value: str = "true", **fields: Any) -> Any:
    made = manifest(name, **fields)
    made["metadata"]["annotations"] = {ELASTIC: value}
    if generation:
        made["metadata"]["generation"] = generation
    return made


def updates(events: Sequence[Event]) -> list[tuple[WorkloadKey, dict[str, int]]]:
    return [
        (event.workload, {pods.name: pods.count for pods in event.pod_sets})
        for event in events
        if isinstance(event, WorkloadUpdated) and event.pod_sets is not None
    ]


@pytest.fixture
def world() -> Elastic:
    return Elastic()


def running(world: Elastic, parallelism: int = 3, **fields: Any) -> WorkloadKey:
    world.elastic(parallelism=parallelism, **fields)
    world.admit()
    return world.workload()


# What becomes of a change of size


def test_growth_makes_a_slice_of_the_same_lineage(world: Elastic) -> None:
    """WS2, WS3: the whole new count, the first one's name, whom it replaces; what runs goes on."""
    first = running(world)
    record = created(world.scale(main=5)).workload
    assert record.key != first
    assert record.replaces == first
    assert record.annotations[SLICE_NAME] == first.partition("/")[2]
    assert record.annotations[REPLACES] == first
    assert record.pod_sets[0].count == 5
    assert world.pods() == {"main": (3, 3, 2)}
    assert names(world.grow()) == ["JobResized"]
    assert world.pods() == {"main": (5, 5, 0)}
    second = created(world.scale(main=6)).workload
    assert second.replaces == record.key
    assert second.annotations[SLICE_NAME] == first.partition("/")[2]
    assert world.state_of().attempt == 1
    world.verify()


def test_shrinking_is_in_place(world: Elastic) -> None:
    """WS3: the same workload, fewer pods, at once."""
    first = running(world)
    assert updates(world.scale(main=1)) == [(first, {"main": 1})]
    assert world.pods() == {"main": (1, 1, 0)}
    assert world.state_of().pending is None
    world.verify()


@pytest.mark.parametrize(
    ("counts", "sizes", "dispatched"),
    [
        pytest.param({"a": 5}, [{"a": 3, "b": 3}, {"a": 5, "b": 3}], (3, 3), id="one grows"),
        pytest.param({"b": 1}, [{"a": 3, "b": 1}], (3, 1), id="one shrinks"),
        pytest.param({"a": 0, "b": 1}, [{"a": 0, "b": 1}], (0, 1), id="both shrink, one to nothing"),
        pytest.param({"a": 5, "b": 1}, [{"a": 3, "b": 3}, {"a": 5, "b": 1}], (3, 3), id="mixed"),
        pytest.param({"a": 4, "b": 9}, [{"a": 3, "b": 3}, {"a": 4, "b": 9}], (3, 3), id="both grow"),
    ],
)
def test_several_pod_sets(
    world: Elastic, counts: dict[str, Any], sizes: list[dict[str, int]], dispatched: tuple[int, int]
) -> None:
    """Whatever grows needs a slice of all; what shrinks beside it goes with the replacement only (WS3)."""
    world.groups(a=3, b=3)
    world.admit()
    world.scale(**counts)
    assert world.sizes() == sizes
    assert tuple(found[1] for found in world.pods().values()) == dispatched
    if len(sizes) == 2:
        world.grow()
        assert world.sizes() == sizes[1:]
        assert {name: found[1] for name, found in world.pods().items()} == sizes[1]
    world.verify()


def test_a_waiting_slice_is_changed_not_added_to(world: Elastic) -> None:
    """WS4: one admitted, one pending, whatever comes; smaller than the admitted one it shrinks both."""
    first = running(world)
    second = created(world.scale(main=5)).workload.key
    assert updates(world.scale(main=9)) == [(second, {"main": 9})]
    assert updates(world.scale(main=4)) == [(second, {"main": 4})]
    assert updates(world.scale(main=2)) == [(first, {"main": 2}), (second, {"main": 2})]
    assert world.pods() == {"main": (2, 2, 0)}
    withdraw(world)
    world.settle()
    created(world.scale(main=6))
    assert world.pods() == {"main": (2, 2, 4)}
    world.grow()
    assert world.pods() == {"main": (6, 6, 0)}
    world.verify()


def withdraw(world: Elastic) -> WorkloadKey:
    """Say, as the scheduler, that the pending slice is not needed any more."""
    job = world.state_of()
    assert job.pending is not None
    pending = job.pending.key
    world.put(WorkloadSliceWithdrawn(cause=0, workload=pending, running=job.record.key, message="Withdrawn"))
    return pending


def test_a_growth_taken_back_is_deleted_when_the_scheduler_has_withdrawn_it(world: Elastic) -> None:
    """WS3: the running slice goes on as if nothing had been; a later growth is a slice of its own."""
    first = running(world)
    world.job("JobPodsReady", {"attempt": 1})
    second = created(world.scale(main=5)).workload.key
    world.scale(main=3)
    assert withdraw(world) == second
    assert names(world.settle()) == ["WorkloadDeleted"]
    assert world.sizes() == [{"main": 3}]
    assert world.state_of().pods_ready
    third = created(world.scale(main=4)).workload
    assert third.replaces == first
    assert third.key not in (first, second)
    world.verify()


def test_a_growth_after_the_scheduler_has_withdrawn_the_last(world: Elastic) -> None:
    """Sizes that are asked for meanwhile wait for that, so that they begin anew; none is lost."""
    first = running(world)
    created(world.scale(main=5))
    world.scale(main=3)
    assert world.scale(main=6) == []
    assert world.scale(main=7) == []
    withdraw(world)
    events = world.settle()
    assert names(events) == ["WorkloadDeleted", "WorkloadCreated", "WorkloadUpdated"]
    assert created(events).workload.replaces == first
    assert world.sizes() == [{"main": 3}, {"main": 7}]
    world.grow()
    assert world.pods() == {"main": (7, 7, 0)}
    world.verify()


def test_a_growth_that_was_admitted_before_it_was_taken_back(world: Elastic) -> None:
    """What was asked for after that begins with the slice that was admitted."""
    running(world)
    second = created(world.scale(main=5)).workload.key
    world.scale(main=3)
    world.scale(main=6)
    world.grow(main=5)
    assert world.workload() == second
    assert world.sizes() == [{"main": 3}, {"main": 6}]
    world.verify()


def test_what_comes_while_a_growth_is_withdrawn(world: Elastic) -> None:
    """Reports and deletions do not wait; people switch a job off after the changes that they asked for."""
    running(world)
    world.scale(main=5)
    world.scale(main=3)
    world.scale(main=6)
    assert names(world.job("JobPodsReady", {"attempt": 1})) == ["WorkloadPodsReady"]
    assert world.job("JobDeactivated", {}) == []
    withdraw(world)
    world.settle()
    assert world.sizes() == [{"main": 3}, {"main": 6}]
    assert not world.state_of().record.active
    world.verify()


def test_a_deletion_while_a_growth_is_withdrawn(world: Elastic) -> None:
    running(world)
    world.scale(main=5)
    world.scale(main=3)
    world.scale(main=6)
    assert names(world.job("JobDeleted", {})) == ["InputsIgnored", "JobSuspended"]
    world.verify()


def test_a_flood_of_sizes_while_a_growth_is_withdrawn(world: Elastic) -> None:
    running(world)
    world.scale(main=5)
    world.scale(main=3)
    for size in range(6, 6 + MAX_HELD):
        assert world.scale(main=size) == []
    assert "the job's growth was taken back, and 32 changes wait" in refused(world.scale(main=5))[0]
    withdraw(world)
    world.settle()
    assert world.sizes() == [{"main": 3}, {"main": 5 + MAX_HELD}]
    world.verify()


@pytest.mark.parametrize("size", [3, 6])
def test_a_job_that_stops_with_a_withdrawn_growth(world: Elastic, size: int) -> None:
    """All that the scheduler said is read at once: one workload of the newest size is left, and queued."""
    first = running(world)
    world.scale(main=5)
    world.scale(main=3)
    world.scale(main=size)
    withdraw(world)
    world.put(Evicted(cause=0, workload=first, reason="Preempted"))
    world.settle()
    world.job("JobStopped", {"attempt": 1})
    world.put(QuotaReleased(cause=0, workload=first))
    world.settle()
    job = world.state_of()
    assert (job.phase, job.pending) == (Phase.PENDING, None)
    assert world.sizes() == [{"main": size}]
    assert job.record.key == first
    world.admit()
    assert world.pods() == {"main": (size, size, 0)}
    world.verify()


@pytest.mark.parametrize("size", [7, 4, 2])
@pytest.mark.parametrize("how", ["scale", "submit"])
@pytest.mark.parametrize("growth", ["waits", "withdrawn", "rejected"])
def test_a_size_that_is_asked_for_when_the_quota_goes(
    world: Elastic, growth: str, how: str, size: int
) -> None:
    """Read together with the release, it is the size of whichever slice is left to speak for the job."""
    first = running(world)
    world.scale(main=5)
    pending = world.state_of().pending
    assert pending is not None
    if growth == "rejected":
        world.put(WorkloadDeactivated(cause=0, workload=pending.key, reason="AdmissionCheck", message="no"))
    world.evict()
    world.job("JobStopped", {"attempt": 1})
    if growth == "withdrawn":
        withdraw(world)
    world.put(QuotaReleased(cause=0, workload=first))
    if how == "scale":
        world.message("job.default.a", "JobScaled", {"podSets": {"main": size}})
    else:
        world.message("job.default.a", "JobSubmitted", elastic_manifest(parallelism=size))
    world.settle()
    assert world.sizes() == [{"main": size}]
    world.admit()
    assert world.pods() == {"main": (size, size, 0)}
    world.verify()


def test_a_withdrawal_that_comes_too_late(world: Elastic) -> None:
    """The old slice has lost its quota meanwhile, and its job has only this one left: it gets another."""
    running(world)
    second = created(world.scale(main=5)).workload.key
    world.scale(main=3)
    world.evict()
    world.job("JobStopped", {"attempt": 1})
    world.release()
    assert world.workload() == second
    world.put(WorkloadSliceWithdrawn(cause=0, workload=second, running=second, message="Withdrawn"))
    assert names(world.settle()) == ["WorkloadCreated", "WorkloadDeleted"]
    assert world.workload() != second
    assert world.sizes() == [{"main": 3}]
    world.verify()


@pytest.mark.parametrize("size", [3, 2])
def test_a_growth_that_is_admitted_while_it_is_taken_back(world: Elastic, size: int) -> None:
    """The scheduler was first: the new slice shrinks in place, and its pods are as ready as they were."""
    running(world)
    world.job("JobPodsReady", {"attempt": 1})
    world.scale(main=5)
    world.scale(main=size)
    events = world.grow(main=5)
    ready = [event for event in events if isinstance(event, WorkloadPodsReady)]
    assert [(event.workload, event.ready) for event in ready] == [(world.workload(), True)]
    assert world.pods() == {"main": (size, size, 0)}
    world.verify()


@pytest.mark.parametrize(
    ("size", "left"),
    [
        pytest.param(4, 1, id="of five pods two had ended: three run, so one of four is not needed"),
        pytest.param(3, 0, id="all of three may run"),
        pytest.param(1, 0, id="one runs"),
    ],
)
def test_reclaimable_pods_of_a_smaller_slice(world: Elastic, size: int, left: int) -> None:
    """Quota follows the pods that may run: what had been given back before is given back once (SC7)."""
    first = running(world, 5)
    world.job("JobPodsReclaimable", {"attempt": 1, "pods": {"main": 2}, "counts": {"main": 5}})
    events = world.scale(main=size)
    pods = [(e.workload, e.pods) for e in events if isinstance(e, ReclaimablePodsUpdated)]
    assert pods == [(first, {"main": left})]
    # A report of the larger size that comes only now says no more than that.
    late = world.job("JobPodsReclaimable", {"attempt": 1, "pods": {"main": 2}, "counts": {"main": 5}})
    assert not [e for e in late if isinstance(e, ReclaimablePodsUpdated)]
    assert world.state_of().reclaimable == {"main": left}
    world.verify()


@pytest.mark.parametrize("again", [True, False], ids=["as it begins anew", "while it waits"])
def test_the_next_attempt_runs_all_pods_of_a_smaller_slice(world: Elastic, again: bool) -> None:
    """What had ended of an attempt that was stopped gives no quota back for the next one (SC7)."""
    first = running(world, 5)
    world.job("JobPodsReclaimable", {"attempt": 1, "pods": {"main": 4}, "counts": {"main": 5}})
    world.evict()
    world.job("JobStopped", {"attempt": 1})
    world.release()
    assert world.workload() == first
    if again:
        world.reserve()
        world.put(Admitted(cause=world.seq, workload=first))
    events = world.scale(main=4)
    assert updates(events) == [(first, {"main": 4})]
    assert not [event for event in events if isinstance(event, ReclaimablePodsUpdated)]
    assert world.state_of().reclaimable == {}
    world.verify()


def test_nothing_is_said_of_a_slice_that_stays_as_it_is(world: Elastic) -> None:
    """A growth taken back to the running size is about the growth alone."""
    running(world)
    second = created(world.scale(main=5)).workload.key
    assert updates(world.scale(main=3)) == [(second, {"main": 3})]


def refuse(world: Elastic) -> WorkloadKey:
    """Say, as the scheduler, that a check has rejected the growth."""
    job = world.state_of()
    assert job.pending is not None
    pending = job.pending.key
    world.put(WorkloadDeactivated(cause=0, workload=pending, reason="AdmissionCheck", message="No"))
    world.put(Evicted(cause=0, workload=pending, reason="Deactivated"))
    world.put(QuotaReleased(cause=0, workload=pending))
    return pending


def activated(events: Sequence[Event]) -> list[WorkloadKey]:
    return [event.workload for event in events if isinstance(event, WorkloadUpdated) and event.active]


@pytest.mark.parametrize("size", [4, 5, 6])
def test_who_asks_again_for_a_rejected_growth_means_it(world: Elastic, size: int) -> None:
    """WS3: a resize after a rejection is a fresh attempt, also of the same size; what runs is left alone."""
    running(world)
    second = created(world.scale(main=5)).workload.key
    world.give()
    refuse(world)
    assert world.settle() == []
    events = world.scale(main=size)
    assert activated(events) == [second]
    assert world.sizes() == [{"main": 3}, {"main": size}]
    assert world.scale(main=size) != []
    assert activated(world.settle()) == []
    world.grow()
    assert world.pods() == {"main": (size, size, 0)}
    world.verify()


def test_the_same_manifest_again_after_a_rejection(world: Elastic) -> None:
    running(world)
    second = created(world.elastic(parallelism=5)).workload.key
    world.give()
    refuse(world)
    assert activated(world.elastic(parallelism=5)) == [second]
    world.verify()


def test_a_rejection_of_another_size_than_is_asked_for_by_now(world: Elastic) -> None:
    """The scheduler had not heard of the resize: what was rejected is not what the job asks for."""
    running(world)
    second = created(world.scale(main=5)).workload.key
    world.give()
    world.scale(main=6)
    refuse(world)
    assert activated(world.settle()) == [second]
    refuse(world)
    assert world.settle() == [], "whatever was reserved for it last is not known any more"
    world.verify()


@pytest.mark.parametrize(
    ("heard", "again"),
    [
        pytest.param(True, False, id="the check had said no to a request that stood for it, too"),
        pytest.param(False, True, id="it was asked for only then"),
    ],
)
def test_a_rejection_of_growth_that_had_shrunk(world: Elastic, heard: bool, again: bool) -> None:
    """WS3: what is rejected is asked again by the next resize only, not since more was reserved at first."""
    running(world)
    second = created(world.scale(main=6)).workload.key
    world.give()
    no = ChecksRejected(cause=0, workload=second, checks=("gpu",))
    if heard:
        world.scale(main=5)
        world.put(no)
    else:
        world.put(no)
        world.scale(main=5)
    refuse(world)
    assert activated(world.settle()) == ([second] if again else [])
    assert activated(world.scale(main=4)) == ([] if again else [second])
    world.verify()


def test_a_rejected_growth_taken_back(world: Elastic) -> None:
    """Nothing is tried again: the scheduler withdraws it, as any other."""
    first = running(world)
    world.scale(main=5)
    world.give()
    refuse(world)
    assert activated(world.scale(main=2)) == []
    withdraw(world)
    assert names(world.settle()) == ["WorkloadDeleted"]
    assert world.sizes() == [{"main": 2}]
    assert world.workload() == first
    world.verify()


def test_a_job_with_a_rejected_growth_is_evicted(world: Elastic) -> None:
    """It queues again with the size that it had: a rejection of more is none of the job."""
    first = running(world)
    world.scale(main=5)
    world.give()
    refuse(world)
    world.evict()
    world.job("JobStopped", {"attempt": 1})
    assert names(world.release()) == ["WorkloadDeleted"]
    assert (world.workload(), world.sizes()) == (first, [{"main": 3}])
    world.admit()
    assert world.pods() == {"main": (3, 3, 0)}
    world.verify()


def test_without_quota_the_size_changes_in_place(world: Elastic) -> None:
    """WS3: one workload, whatever size; also after an eviction, when the larger slice alone is left."""
    world.elastic(parallelism=3)
    first = world.workload()
    assert updates(world.scale(main=9)) == [(first, {"main": 9})]
    assert updates(world.scale(main=1)) == [(first, {"main": 1})]
    world.admit()
    second = created(world.scale(main=4)).workload.key
    world.evict()
    world.job("JobStopped", {"attempt": 1})
    assert "WorkloadFinished" in names(world.release())
    assert world.workload() == second
    assert world.sizes() == [{"main": 4}]
    assert updates(world.scale(main=7)) == [(second, {"main": 7})]
    world.admit()
    assert world.pods() == {"main": (7, 7, 0)}
    assert world.state_of().attempt == 2
    world.verify()


def test_a_reservation_of_an_older_size_grants_what_is_left_of_it(world: Elastic) -> None:
    """WS7: never more pods than granted, though the scheduler saw another size than the one wanted now."""
    running(world)
    world.scale(main=6)
    world.scale(main=8)
    events = world.grow(main=6)
    assert names(events)[0] == "JobResized"
    assert world.pods() == {"main": (6, 6, 2)}
    assert world.sizes() == [{"main": 6}, {"main": 8}]
    world.verify()


def test_a_resize_while_the_slice_is_admitted_is_not_lost(world: Elastic) -> None:
    """Down and up again before the aggregator hears: only the smallest since was kept."""
    running(world)
    world.scale(main=6)
    world.scale(main=4)
    world.scale(main=9)
    world.grow(main=6)
    assert world.pods()["main"][1] == 4
    assert world.sizes()[-1] == {"main": 9}
    world.verify()


def test_changes_that_are_no_resize_stop_the_job(world: Elastic) -> None:
    """WS3: a change of the constraints is refused, of the template too; a priority goes to both slices."""
    running(world)
    world.apply_object("WorkloadPriorityClass", "high", value=9)
    second = created(world.scale(main=5)).workload.key
    changed = elastic_manifest(parallelism=6, priority_class="high")
    events = world.job("JobSubmitted", changed)
    assert {event.workload for event in events if isinstance(event, WorkloadUpdated)} == {
        world.workload(),
        second,
    }
    assert [record.priority for record in (world.state_of().record, world.state_of().pending)] == [9, 9]
    assert world.sizes() == [{"main": 3}, {"main": 6}]
    other = elastic_manifest(parallelism=6, command=("false",))
    assert refused(world.job("JobSubmitted", other)) == [
        "spec.template: Forbidden: field is immutable while the job is running"
    ]
    world.verify()


# Ends


@pytest.mark.parametrize("pending", [False, True])
def test_deletion_takes_all_slices(world: Elastic, pending: bool) -> None:
    """WS8: finished, admitted and pending ones, once the job has stopped."""
    running(world)
    keys = {world.workload()}
    for count in (4, 5):
        keys.add(created(world.scale(main=count)).workload.key)
        world.grow()
    if pending:
        keys.add(created(world.scale(main=9)).workload.key)
    world.job("JobDeleted", {})
    events = world.job("JobStopped", {"attempt": 1})
    assert {event.workload for event in events} == keys  # type: ignore[attr-defined]
    assert not world.state.aging
    assert not world.state.by_workload
    world.verify()


def test_a_finished_job_ends_its_pending_slice(world: Elastic) -> None:
    """No slice outlives its job; a resize that comes too late is stale, of a deleted one an error."""
    running(world)
    pending = created(world.scale(main=5)).workload.key
    events = world.job("JobFinished", {"attempt": 1})
    assert (names(events)[0], events[0].workload) == ("WorkloadFinished", pending)  # type: ignore[attr-defined]
    assert names(world.scale(main=7)) == ["InputsIgnored"]
    world.job("JobDeleted", {})
    assert refused(world.scale(main=7)) == ['subject: Not found: "default/a"']
    world.verify()


def test_what_is_decided_of_slices_does_not_reach_a_job_that_stops(world: Elastic) -> None:
    """An entry is as of a commit of the slice-aggregator: a new leader that has heard more, and has nothing
    to decide by it, shows what its predecessor did.
    """
    running(world)
    created(world.scale(main=5))
    assert names(world.job("JobDeleted", {}))[0] == "JobSuspended"
    told = world.dispatch()
    assert world.grow() == []
    assert world.dispatch() == told
    world.verify()


def test_the_job_stops_as_a_whole(world: Elastic) -> None:
    """WS6: with the old slice evicted nothing of the new one may start; both come back as one."""
    first = running(world)
    second = created(world.scale(main=5)).workload.key
    assert names(world.evict()) == ["JobSuspended"]
    entry = world.dispatch()
    assert entry is not None
    assert (entry.state, entry.pod_sets) == ("Suspended", ())
    # What was decided of the new slice before the eviction was seen is taken back by the scheduler.
    world.put(QuotaReleased(cause=world.seq, workload=second))
    world.job("JobStopped", {"attempt": 1})
    events = world.release()
    assert [(names([e])[0], e.workload) for e in events] == [("WorkloadFinished", first)]  # type: ignore[attr-defined]
    assert world.workload() == second
    world.verify()


def test_a_slice_waits_for_its_checks(world: Elastic) -> None:
    """Reserved is not admitted: the new pods stay gated until the replacement, then get what checks add."""
    running(world)
    second = created(world.scale(main=5)).workload.key
    world.give()
    assert world.pods() == {"main": (3, 3, 2)}
    update = {"name": "main", "nodeSelector": {"pool": "new"}}
    world.put(ChecksRequested(cause=world.seq, workload=second, attempt=1, checks=("c",)))
    world.put(
        msgspec.convert(
            {
                "cause": world.seq,
                "workload": second,
                "check": "c",
                "state": "Ready",
                "podSetUpdates": [update],
            },
            CheckStateChanged,
        )
    )
    world.settle()
    assert world.pods() == {"main": (3, 3, 2)}
    assert world.dispatch().pod_sets[0].node_selector == {}
    # A retry takes its reservation only; the next one starts over.
    world.put(Evicted(cause=world.seq, workload=second, reason="AdmissionCheck", message="later"))
    world.put(QuotaReleased(cause=world.seq, workload=second))
    assert names(world.settle()) == []
    assert world.pods() == {"main": (3, 3, 2)}
    world.grow()
    assert world.pods() == {"main": (5, 5, 0)}
    world.verify()


# History (WS8)


def history(world: Elastic, sizes: int, step_s: int = 10) -> list[WorkloadKey]:
    """Let the job grow so many times; return the keys of its replaced slices, oldest first."""
    running(world, 1)
    keys = []
    for count in range(2, sizes + 2):
        keys.append(world.workload())
        world.now += step_s * 1_000_000
        world.scale(main=count)
        world.grow()
    return keys


def test_history_is_kept_to_a_number(world: Elastic) -> None:
    """The oldest go when a further one is made, and when the limit is lowered."""
    world.apply_object("Configuration", "default", spec={"workloadSliceHistoryLimit": 3})
    keys = history(world, 5)
    assert world.state_of().history == keys[-3:]
    events = world.apply_object("Configuration", "default", spec={"workloadSliceHistoryLimit": 1})
    assert [event.workload for event in events] == keys[-3:-1]  # type: ignore[attr-defined]
    world.apply_object("Configuration", "default", spec={"workloadSliceHistoryLimit": 0})
    assert world.state_of().history == []
    world.scale(main=9)
    world.grow()
    assert world.state_of().history == []
    world.verify()


def test_history_is_kept_for_a_time(world: Elastic) -> None:
    """By age too, of live and of finished jobs; the deadline follows from the state, also after a restart."""
    keys = history(world, 3)
    assert world.deadline() is None
    world.apply_object("Configuration", "default", spec={"workloadSliceRetentionSeconds": 25})
    due = START + (10 + 25) * 1_000_000
    assert world.deadline() == due
    world.service.restart()
    assert world.deadline() == due
    world.now = due - 1
    assert world.settle() == []
    world.now = due
    assert [event.workload for event in world.settle()] == keys[:1]  # type: ignore[attr-defined]
    assert world.state_of().history == keys[1:]
    world.job("JobFinished", {"attempt": 1})
    assert world.deadline() == due + 10_000_000
    world.now = due + 15_000_000
    assert [event.workload for event in world.settle()] == keys[1:2]  # type: ignore[attr-defined]
    world.elastic(parallelism=2)  # the same name again: what is left of the old job goes
    assert not world.state.aging
    assert world.deadline() is None
    world.verify()


# Bad input


@pytest.mark.parametrize("counts", [{"a": 0, "b": 0}, {"a": -1}, {"c": 1}, {}, {"a": 2**31}])
def test_sizes_that_cannot_be(world: Elastic, counts: dict[str, Any]) -> None:
    """Nothing, less, of an unknown pod set, absurd: refused with the field's path; the job goes on."""
    world.groups(a=1, b=1)
    world.admit()
    expected = {
        "{'a': 0, 'b': 0}": "podSets: Invalid value: 0: an elastic job keeps at least one pod: "
        "delete or deactivate it instead",
        "{'a': -1}": "podSets[a]: Invalid value: -1: must be between 0 and 2147483647",
        "{'c': 1}": 'podSets[c]: Not found: "c"',
        "{}": "podSets: Required value",
        "{'a': 2147483648}": "podSets[a]: Invalid value: 2147483648: must be between 0 and 2147483647",
    }
    assert refused(world.scale(**counts)) == [expected[str(counts)]]
    assert world.pods() == {"a": (1, 1, 0), "b": (1, 1, 0)}
    world.verify()


def test_a_manifest_without_pods_is_refused(world: Elastic) -> None:
    running(world)
    (error,) = refused(world.job("JobSubmitted", elastic_manifest(parallelism=0)))
    assert "an elastic job keeps at least one pod" in error


@pytest.mark.parametrize(
    ("before", "after"), [("true", "false"), ("true", None), ("false", "true"), (None, "true")]
)
@pytest.mark.parametrize("admitted", [False, True])
def test_opting_in_and_out_is_refused(
    world: Elastic, before: str | None, after: str | None, admitted: bool
) -> None:
    """WS1: the annotation stays what it was, whatever has become of the job."""

    def made(value: str | None, parallelism: int) -> Any:
        if value is None:
            return manifest("a", parallelism=parallelism)
        return elastic_manifest("a", value=value, parallelism=parallelism)

    world.job("JobSubmitted", made(before, 2))
    if admitted:
        world.admit()
    (error,) = refused(world.job("JobSubmitted", made(after, 3)))
    assert error.startswith("metadata.annotations[kueue.x-k8s.io/elastic-job]: Invalid value: ")
    assert error.endswith("field is immutable")


@pytest.mark.parametrize("value", ["True", "yes", "1", ""])
@pytest.mark.parametrize("name", ["elastic-job", "cannot-preempt", "cannot-borrow"])
def test_values_of_annotations(world: Elastic, name: str, value: str) -> None:
    """WS1, AX1: exactly "true"; "false" is off; what looks like it is refused instead of ignored."""
    made = manifest()
    made["metadata"]["annotations"] = {f"kueue.x-k8s.io/{name}": value}
    (error,) = refused(world.job("JobSubmitted", made))
    assert error == (
        f'metadata.annotations[kueue.x-k8s.io/{name}]: Unsupported value: "{value}": '
        'supported values: "true", "false"'
    )


def test_elastic_and_partial_admission_exclude_each_other(world: Elastic) -> None:
    made = elastic_manifest(parallelism=4)
    made["metadata"]["annotations"]["kueue.x-k8s.io/job-min-parallelism"] = "2"
    (error,) = refused(world.job("JobSubmitted", made))
    assert error.endswith("partial admission and elastic job cannot be used together")


def test_sizes_out_of_order(world: Elastic) -> None:
    """A size of an older generation than the one in force is stale, by event or by manifest."""
    world.elastic(parallelism=3, generation=4)
    world.admit()
    assert names(world.scale(generation=3, main=9)) == ["InputsIgnored"]
    second = created(world.scale(generation=6, main=5)).workload.key
    assert names(world.job("JobSubmitted", elastic_manifest(parallelism=9, generation=5))) == [
        "InputsIgnored"
    ]
    assert updates(world.scale(generation=7, main=6)) == [(second, {"main": 6})]
    assert names(world.scale(generation=7, main=6)) == ["InputsIgnored"]
    assert world.sizes() == [{"main": 3}, {"main": 6}]
    world.verify()


@pytest.mark.parametrize("state", ["pending", "reserved", "running", "stopping"])
@pytest.mark.parametrize("elastic", ["true", "false"])
@pytest.mark.parametrize(("asked", "had"), [(9, 3), (3, 3), (1, 1)])
def test_no_more_pods_than_must_complete(
    world: Elastic, state: str, elastic: str, asked: int, had: int
) -> None:
    """A size is what parallelism is in a manifest, whatever state the job is in: completions bound it."""
    made = elastic_manifest(value=elastic, parallelism=2, completions=3)
    world.job("JobSubmitted", made)
    if state != "pending":
        world.reserve()
    if state in ("running", "stopping"):
        world.put(Admitted(cause=world.seq, workload=world.workload()))
        world.settle()
    if state == "stopping":
        world.evict()
    world.scale(main=asked)
    if world.state_of().phase is Phase.STOPPING:
        world.job("JobStopped", {"attempt": 1})
        world.put(QuotaReleased(cause=0, workload=world.workload()))
        world.settle()
    assert world.sizes()[-1] == {"main": had}
    assert names(world.scale(main=had + 9 if had == 3 else had)) == ["InputsIgnored"]
    world.verify()


def test_completions_that_follow_the_size_bound_nothing(world: Elastic) -> None:
    made = elastic_manifest(parallelism=2, completions=2, completionMode="Indexed")
    made["metadata"]["annotations"]["kueue.x-k8s.io/job-completions-equal-parallelism"] = "true"
    world.job("JobSubmitted", made)
    world.admit()
    world.scale(main=4)
    assert world.sizes() == [{"main": 2}, {"main": 4}]


def test_another_manifest_has_other_completions(world: Elastic) -> None:
    running(world, 2, completions=2)
    assert names(world.scale(main=4)) == ["InputsIgnored"]
    world.elastic(parallelism=2, completions=6)
    world.scale(main=4)
    assert world.sizes() == [{"main": 2}, {"main": 4}]
    world.verify()


def test_sizes_in_quick_succession(world: Elastic) -> None:
    """Fifty in one batch leave one admitted and one pending slice, of the last size."""
    running(world)
    for count in range(4, 54):
        world.message("job.default.a", "JobScaled", {"podSets": {"main": count}})
    events = world.settle()
    assert sum(isinstance(event, WorkloadCreated) for event in events) == 1
    assert world.sizes() == [{"main": 3}, {"main": 53}]
    world.verify()


def test_without_the_feature_a_resize_stops_the_job(world: Elastic) -> None:
    """The gate off: an ordinary job."""
    world.apply_object(
        "Configuration", "default", spec={"featureGates": {"ElasticJobsViaWorkloadSlices": False}}
    )
    running(world)
    assert names(world.scale(main=5)) == ["JobSuspended"]


# Constraints (AX1)


@pytest.mark.parametrize("name", ["cannot-preempt", "cannot-borrow"])
def test_constraints_are_immutable_once_quota_is_reserved(world: Elastic, name: str) -> None:
    """Before that they may change; after it the refusal names the annotation, of both slices' job too."""
    label = f"kueue.x-k8s.io/{name}"
    word = name.replace("-", "_")

    def made(value: str | None, parallelism: int = 3) -> Any:
        found = elastic_manifest(parallelism=parallelism)
        if value is not None:
            found["metadata"]["annotations"][label] = value
        return found

    world.job("JobSubmitted", made(None))
    world.job("JobSubmitted", made("true"))
    assert getattr(world.state_of().record, word)
    world.job("JobSubmitted", made("false"))
    assert not getattr(world.state_of().record, word)
    world.admit()
    expected = f'metadata.annotations[{label}]: Invalid value: "true": field is immutable'
    assert refused(world.job("JobSubmitted", made("true"))) == [expected]
    world.scale(main=5)
    assert refused(world.job("JobSubmitted", made("true", 6))) == [expected]
    # Saying no in other words is no change.
    assert names(world.job("JobSubmitted", made(None, 6))) != ["Rejected"]
    world.evict()
    world.job("JobStopped", {"attempt": 1})
    world.release()
    world.job("JobSubmitted", made("true", 6))
    assert getattr(world.state_of().record, word)
    world.verify()


@pytest.mark.parametrize("field", ["preemption", "borrowing"])
def test_the_field_form_is_immutable_too(world: Elastic, field: str) -> None:
    """The refusal names the field, or the annotation where the manifest has none."""

    def made(**constraints: str) -> Any:
        spec = {"queueName": "main", "replicas": 1, "resources": {"cpu": 1}, "command": ["true"]}
        if constraints:
            spec["admissionConstraints"] = constraints
        return {
            "apiVersion": "sluice.dev/v1alpha1",
            "kind": "Job",
            "metadata": {"name": "a", "namespace": "default"},
            "spec": spec,
        }

    world.job("JobSubmitted", made())
    world.admit()
    assert refused(world.job("JobSubmitted", made(**{field: "Never"}))) == [
        f'spec.admissionConstraints.{field}: Invalid value: "Never": field is immutable'
    ]
    (error,) = refused(world.job("JobSubmitted", made(**{field: "Sometimes"})))
    assert f"spec.admissionConstraints.{field}" in error


# Concurrent admission


def concurrent(world: Elastic, **spec: Any) -> None:
    """Let the local queue `main` be one of a queue with concurrent admission."""
    policy = {"migration": {"mode": "TryPreferredFlavors"}}
    world.apply_object("ClusterQueue", "cq", spec={"concurrentAdmissionPolicy": policy, **spec})
    world.apply_object("LocalQueue", "main", "default", spec={"clusterQueue": "cq"})


def test_a_queue_with_variants_takes_no_elastic_job(world: Elastic) -> None:
    """Refused where it is submitted, with the annotation's path; also when it is moved there."""
    concurrent(world)
    (error,) = refused(world.elastic())
    assert error.startswith('metadata.annotations[kueue.x-k8s.io/elastic-job]: Forbidden: ClusterQueue "cq"')
    assert names(world.submit("plain")) == ["WorkloadCreated"]
    assert names(world.elastic("other", queue="elsewhere")) == ["WorkloadCreated"]
    (error,) = refused(world.elastic("other", queue="main"))
    assert error.startswith("metadata.annotations[kueue.x-k8s.io/elastic-job]: Forbidden")
    world.verify()


@pytest.mark.parametrize("gate", ["ConcurrentAdmission", "ElasticJobsViaWorkloadSlices"])
def test_without_one_of_the_features_there_is_no_conflict(world: Elastic, gate: str) -> None:
    concurrent(world)
    world.apply_object("Configuration", "default", spec={"featureGates": {gate: False}})
    assert names(world.elastic()) == ["WorkloadCreated"]


def test_a_queue_without_variants_takes_elastic_jobs_again(world: Elastic) -> None:
    """The refusal follows the configuration, also after a restart."""
    concurrent(world)
    world.service.restart()
    assert names(world.elastic()) == ["Rejected"]
    world.apply_object("ClusterQueue", "cq", spec={})
    assert names(world.elastic()) == ["WorkloadCreated"]


def test_a_job_that_is_deleted_does_not_grow(world: Elastic) -> None:
    """Nobody is to be preempted for it while its pods stop; the scheduler withdraws the growth."""
    first = running(world)
    second = created(world.scale(main=5)).workload.key
    events = world.job("JobDeleted", {})
    assert names(events) == ["JobSuspended", "WorkloadUpdated"]
    assert updates(events) == [(second, {"main": 3})]
    world.put(WorkloadSliceWithdrawn(cause=world.seq, workload=second, running=first, message=""))
    assert names(world.settle()) == ["WorkloadDeleted"]
    assert names(world.job("JobStopped", {"attempt": 1})) == ["WorkloadDeleted"]
    world.verify()


def test_what_was_done_goes_with_the_growth_of_a_job_that_is_deleted(world: Elastic) -> None:
    """Of no more than runs nothing is too much; and what is asked twice is taken back once."""
    running(world, 3, completions=9)
    world.job("JobPodsReclaimable", {"attempt": 1, "pods": {}, "succeeded": {"main": 4}})
    second = created(world.scale(main=7)).workload.key
    assert world.state_of().pending_reclaimable == {"main": 2}
    events = world.job("JobDeleted", {})
    assert names(events) == ["JobSuspended", "WorkloadUpdated", "ReclaimablePodsUpdated"]
    assert updates(events) == [(second, {"main": 3})]
    assert world.state_of().pending_reclaimable == {}
    assert names(world.job("JobDeleted", {})) == ["InputsIgnored"]
    world.verify()


def test_growth_that_was_admitted_as_its_job_was_deleted(world: Elastic) -> None:
    """The scheduler was first: the job stops all the same, and nothing of it is left."""
    first = running(world)
    second = created(world.scale(main=5)).workload.key
    world.give()
    assert names(world.job("JobDeleted", {})) == ["JobSuspended", "WorkloadUpdated"]
    world.put(Admitted(cause=world.seq, workload=second))
    world.put(WorkloadSliceReplaced(cause=world.seq, workload=first, by=second, message="Replaced"))
    assert not world.settle()
    assert names(world.job("JobStopped", {"attempt": 1})) == ["WorkloadDeleted", "WorkloadDeleted"]
    assert not world.state.jobs
    world.verify()


def test_what_was_assigned_in_part_has_seen_every_change_since(world: Elastic) -> None:
    """The scheduler gives up what a change takes away, for good; a later one gives nothing back (WS3, SC7).

    Two pods can be the whole job, or a part of what it was before: then only one of the two is left of it.
    """
    job = manifest(parallelism=3)
    job["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "1"}
    first = created(world.job("JobSubmitted", job)).workload.key
    world.scale(main=1)
    world.scale(main=2)
    assert created(world.reserve(count=2)).workload.key != first
    assert world.dispatch() is None
    world.admit(count=2)
    entry = world.dispatch()
    assert entry is not None
    assert [pods.count for pods in entry.pod_sets] == [2]
    world.verify()
