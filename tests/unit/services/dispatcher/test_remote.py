"""What a link makes of a worker's log, and of a manifest: without a server."""

from sluice.core.naming import short_hash
from sluice.events import checks, scheduler, slices
from sluice.events.base import Event, JobKey, WorkloadKey
from sluice.protocol.cells import Fact, Order
from sluice.services.dispatcher.link import as_offer, queue_of
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


def test_rungs_are_constraints() -> None:
    """An offer has a name of its own, its origin, and may do what its rung allows."""
    manifest = {
        "kind": "Job",
        "metadata": {"name": "train", "uid": "x", "labels": {"team": "a"}},
        "spec": {"queueName": "lq"},
    }
    notes = {}
    for rung in ("Fits", "Borrows", "Preempts", "Stands"):
        offered = as_offer(manifest, Order(cell="near", job=OFFER, do="Offer", rung=rung), THERE, "main")
        notes[rung] = sorted(name.partition("/")[2] for name in offered["metadata"]["annotations"])
    assert notes == {
        "Fits": ["cannot-borrow", "cannot-preempt"],
        "Borrows": ["cannot-preempt"],
        "Preempts": [],
        "Stands": ["cannot-preempt"],
    }
    assert offered["metadata"]["labels"] == {"team": "a", "kueue.x-k8s.io/multikueue-origin": "main"}
    assert (offered["metadata"]["name"], queue_of(offered)) == (THERE.partition("/")[2], "lq")
    assert "uid" not in offered["metadata"]
