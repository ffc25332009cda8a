"""What a link makes of a worker's log: without a server."""

import msgspec

from sluice.core.naming import short_hash
from sluice.events import checks, scheduler, slices
from sluice.events.base import Event, FieldError, JobKey, PodSet, WorkloadKey
from sluice.protocol.cells import Fact, Order
from sluice.services.dispatcher.remote import RemoteFold
from tests.support.memory_log import World

OFFER = JobKey("default/train-0123456789")
THERE = JobKey(f"{OFFER}-{short_hash(['main'])}")
KEY = WorkloadKey("default/job-w")


def created(job: JobKey) -> Event:
    reference = slices.JobReference(api_version="batch/v1", kind="Job", key=job, uid="u")
    record = slices.WorkloadRecord(
        namespace="default",
        name="job-w",
        uid="w-uid",
        queue_name="lq",
        created_at=1,
        pod_sets=(),
        job=reference,
    )
    return slices.WorkloadCreated(cause=1, workload=record)


def held() -> World:
    """Return a worker whose queue `default/lq` holds what comes from `main`."""
    world = World()
    world.configure("AdmissionCheck", "hold", {"controllerName": "sluice.dev/hold.main"})
    rules = {"admissionChecksStrategy": {"admissionChecks": [{"name": "hold"}]}}
    world.configure("ClusterQueue", "cq", {"namespaceSelector": {}, **rules})
    return world.configure("LocalQueue", "lq", {"clusterQueue": "cq"}, namespace="default")


def facts(world: World, manager: str = "main") -> list[Fact]:
    return list(RemoteFold(manager).facts(world.log))


def test_the_life_of_an_offer() -> None:
    """Each event of a job of the manager's becomes a fact, with its place in the worker's log."""
    world = held()
    world.tell("slices", created(THERE))
    world.tell(
        "scheduler", scheduler.WorkloadsParked(cause=1, workloads=(KEY,), reason="Pending", message="full")
    )
    world.tell("checks", checks.ChecksRequested(cause=1, workload=KEY, attempt=2, checks=("other", "hold")))
    world.tell("slices", slices.JobResumed(cause=1, job=THERE, workload=KEY, attempt=1))
    world.tell("slices", slices.WorkloadPodsReady(cause=1, workload=KEY))
    world.tell("slices", slices.WorkloadFinished(cause=1, workload=KEY, reason="Failed", message="exit 1"))
    world.tell("slices", slices.WorkloadDeleted(cause=1, workload=KEY))
    found = facts(world)
    kinds = ["Present", "NoRoom", "Held", "Running", "Ready", "Finished", "Gone"]
    assert [(fact.kind, fact.seq) for fact in found] == list(zip(kinds, range(4, 11), strict=True))
    assert {fact.job for fact in found} == {OFFER}
    assert (found[0].workload, found[0].uid, found[2].attempt, found[5].success) == (KEY, "w-uid", 2, False)


def test_jobs_of_others_are_nothing() -> None:
    """Neither the worker's own jobs nor another manager's are told of."""
    world = held()
    world.tell("slices", created(JobKey("default/local")))
    world.tell("checks", checks.ChecksRequested(cause=1, workload=KEY, attempt=1, checks=("hold",)))
    assert facts(world) == []
    world.tell("slices", created(THERE))
    assert [fact.kind for fact in facts(world)] == ["Present"]
    assert facts(world, "other") == []


def test_a_refusal_is_of_what_was_said() -> None:
    """A submission that was refused is not there; a deletion that was refused says that nothing is."""
    world = held()
    subject = f"job.{THERE.replace('/', '.')}"
    world.tell("slices", slices.Rejected(cause=1, subject=subject, event_type="JobSubmitted"))
    world.tell("slices", slices.Rejected(cause=1, subject=subject, event_type="JobDeleted"))
    assert [fact.kind for fact in facts(world)] == ["Refused", "Gone"]


def test_a_queue_holds_if_its_check_is_for_all_flavors() -> None:
    """Without the manager's check on each flavor a job could start by itself."""
    world = held()

    def check() -> str:
        fold = RemoteFold("main")
        list(fold.facts(world.log))
        return fold.holds.check_of("default/lq")

    assert check() == "hold"
    some = {"admissionChecks": [{"name": "hold", "onFlavors": ["spot"]}]}
    world.configure("ClusterQueue", "cq", {"namespaceSelector": {}, "admissionChecksStrategy": some})
    assert check() == ""


def test_whether_jobs_can_grow_there_is_known() -> None:
    """With the gate off another size would stop the job, so a link does not ask for one."""
    world, fold = held(), RemoteFold("main")
    list(fold.facts(world.log))
    assert fold.holds.resizes
    world.configure("Configuration", "default", {"featureGates": {"ElasticJobsViaWorkloadSlices": False}})
    list(fold.facts(world.log[-1:]))
    assert not fold.holds.resizes


GROWTH = WorkloadKey("default/job-w2")


def growing() -> tuple[World, RemoteFold]:
    """Return a worker in which a job of the manager's is to grow from 2 pods to 5, and a link to it."""
    world = held()
    world.tell("slices", with_pods(created(THERE), 2))
    world.tell("slices", with_pods(created(THERE), 5, GROWTH))
    return world, RemoteFold("main")


def with_pods(event: Event, pods: int, growth: WorkloadKey | None = None) -> Event:
    assert isinstance(event, slices.WorkloadCreated)
    record = msgspec.structs.replace(event.workload, pod_sets=(PodSet(name="main", count=pods),))
    if growth is not None:
        record = msgspec.structs.replace(
            record, name=growth.partition("/")[2], uid="g-uid", replaces=event.workload.key
        )
    return slices.WorkloadCreated(cause=2, workload=record)


def test_a_slice_that_is_to_take_its_place_is_not_the_job() -> None:
    """What becomes of it is told apart, until it has taken the place; the end of the old one is no end."""
    world, fold = growing()
    scheduled = scheduler.WorkloadsParked(cause=1, workloads=(GROWTH,), reason="Pending", message="full")
    world.tell("scheduler", scheduled)
    world.tell("checks", checks.ChecksRequested(cause=1, workload=GROWTH, attempt=1, checks=("hold",)))
    world.tell("checks", checks.ChecksWithdrawn(cause=1, workload=GROWTH, attempt=1, reason="Evicted"))
    world.tell("checks", checks.ChecksRequested(cause=1, workload=GROWTH, attempt=2, checks=("hold",)))
    replaced = scheduler.WorkloadSliceReplaced(cause=1, workload=KEY, by=GROWTH, message="")
    world.tell("scheduler", replaced)
    world.tell("checks", checks.ChecksWithdrawn(cause=1, workload=KEY, attempt=1, reason="Finished"))
    resized = slices.JobResized(cause=1, job=THERE, workload=GROWTH, attempt=1, pods={"main": 5})
    world.tell("slices", resized)
    world.tell("slices", slices.WorkloadPodsReady(cause=1, workload=GROWTH))
    world.tell("slices", slices.WorkloadDeleted(cause=1, workload=KEY))
    world.tell("slices", slices.WorkloadFinished(cause=1, workload=GROWTH, reason="Succeeded"))
    world.tell("slices", slices.WorkloadDeleted(cause=1, workload=GROWTH))
    found = list(fold.facts(world.log))
    assert [fact.kind for fact in found] == [
        *["Present", "Growing", "GrowthNoRoom", "GrowthHeld", "GrowthFreed", "GrowthHeld"],
        *["Resized", "Resized", "Ready", "Finished", "Gone"],
    ]
    assert [found[1].pods, found[6].pods, found[6].uid] == [{"main": 5}, {"main": 5}, "g-uid"]
    assert {fact.job for fact in found} == {OFFER}


def test_a_growth_that_is_taken_back_is_gone() -> None:
    world, fold = growing()
    smaller = slices.WorkloadUpdated(cause=1, workload=GROWTH, pod_sets=(PodSet(name="main", count=2),))
    world.tell("slices", smaller)
    world.tell("slices", slices.WorkloadDeleted(cause=1, workload=GROWTH))
    assert [fact.kind for fact in fold.facts(world.log)][2:] == ["Growing", "GrowthGone"]


def test_a_link_that_begins_later_knows_the_growth_by_its_orders() -> None:
    """What was made before its place in the log is known from what the manager remembers."""
    world, _ = growing()
    before = len(world.log)
    world.tell("checks", checks.ChecksRequested(cause=1, workload=GROWTH, attempt=1, checks=("hold",)))
    fold = RemoteFold("main")
    fold.know([Order(cell="near", job=OFFER, do="Offer", remote=KEY, growth=GROWTH, growth_uid="g-uid")])
    list(fold.facts([entry for entry in world.log[:before] if entry.suffix == "config"]))
    assert [fact.kind for fact in fold.facts(world.log[before:])] == ["GrowthHeld"]


def test_an_edit_is_answered_by_what_names_it_as_its_cause() -> None:
    """By a change, by nothing to be changed, or by a refusal, which is no refusal of the job."""
    world, fold = growing()
    for number, seq in enumerate((71, 72, 73), 1):
        fold.sent(seq, OFFER, number)
    world.tell("slices", slices.WorkloadUpdated(cause=71, workload=KEY, priority=5))
    world.tell("slices", slices.InputsIgnored(cause=72, seqs=(72,), reason="Duplicate"))
    error = FieldError(field="metadata.labels", detail="no such class")
    subject = f"job.{THERE.replace('/', '.')}"
    world.tell(
        "slices", slices.Rejected(cause=73, subject=subject, event_type="JobSubmitted", errors=(error,))
    )
    found = [fact for fact in fold.facts(world.log) if fact.kind not in ("Present", "Growing")]
    assert [(fact.kind, fact.attempt, fact.message) for fact in found] == [
        ("Edited", 1, ""),
        ("Edited", 2, ""),
        ("Edited", 3, 'metadata.labels: Invalid value: "": no such class'),
    ]
