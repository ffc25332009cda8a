"""Jobs in namespaces with limit ranges: what waits is what they make of it now, what has quota stays.

Each test ends with `check`: rebuilt in every way, the state is the same, byte for byte.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from sluice.core.slices.limits import TO_BE_ADJUSTED
from sluice.events.base import PodSetAssignment
from sluice.events.config import ObjectDeleted
from sluice.events.scheduler import QuotaReserved
from sluice.events.slices import WorkloadCreated, WorkloadUpdated
from tests.support.slices_world import World, created, manifest, names, refused

ELASTIC = "kueue.x-k8s.io/elastic-job"
OUT_OF_RANGE = (
    "resources didn't satisfy LimitRange constraints: spec.podSets[0].template.spec.containers[0]: "
    'Invalid value: ["cpu"]: requests must not be above the limitRange max'
)


class Limited(World):
    def limit(self, name: str = "limits", namespace: str = "default", **item: Any) -> list[Any]:
        limits = [{"type": "Container", **item}]
        return self.apply_object("LimitRange", name, namespace, spec={"limits": limits})

    def drop(self, kind: str = "LimitRange", name: str = "limits") -> list[Any]:
        namespace = "default" if kind == "LimitRange" else ""
        self.put(ObjectDeleted(cause=0, kind=kind, name=name, namespace=namespace))
        return self.settle()

    def says(self, name: str = "a") -> tuple[dict[str, int], str]:
        record = self.state_of(name).record
        return record.pod_sets[0].requests, record.misconfigured


@pytest.fixture
def world() -> Iterator[Limited]:
    world = Limited()
    yield world
    world.verify()


def bare(name: str = "a", **more: Any) -> dict[str, Any]:
    """A job whose container has these resources, if any."""
    job = manifest(name, **{k: v for k, v in more.items() if k != "resources"})
    job["spec"]["template"]["spec"]["containers"][0]["resources"] = more.get("resources", {})
    return job


def test_a_job_is_made_with_the_defaults_of_its_namespace(world: Limited) -> None:
    """Those of other namespaces are none of its business."""
    world.limit(defaultRequest={"cpu": 2})
    world.limit(namespace="other", defaultRequest={"memory": "1Gi"})

    record = created(world.job("JobSubmitted", bare())).workload

    assert record.pod_sets[0].requests == {"cpu": 2000}
    assert record.misconfigured == ""


def test_a_job_out_of_range_is_accepted_and_says_so(world: Limited) -> None:
    """It waits, as a Workload of Kueue's does, until somebody changes it or the limits."""
    world.limit(max={"cpu": "300m"})

    assert created(world.submit()).workload.misconfigured == OUT_OF_RANGE


def test_without_limit_ranges_a_request_above_its_limit_is_refused(world: Limited) -> None:
    """As an API server does, which would not let the job in."""
    wrong = bare(resources={"requests": {"cpu": 2}, "limits": {"cpu": 1}})

    assert refused(world.job("JobSubmitted", wrong)) == [
        "spec.template.spec.containers[0].resources.requests: "
        'Invalid value: "2": must be less than or equal to cpu limit of 1'
    ]


@pytest.mark.parametrize(
    ("resources", "own"),
    [({}, {}), ({"requests": {"cpu": 1}}, {"cpu": 1000}), ({"limits": {"cpu": 1}}, {"cpu": 1000})],
)
def test_what_waits_follows_the_limit_ranges(
    world: Limited, resources: dict[str, Any], own: dict[str, int]
) -> None:
    """Created, edited and deleted, one after the other: at last the job is what its manifest says."""
    world.job("JobSubmitted", bare(resources=resources))

    (event,) = world.limit(defaultRequest={"cpu": 2, "memory": "1Ki"}, max={"cpu": "1500m"})
    assert isinstance(event, WorkloadUpdated)
    assert event.cause == world.seq
    wanted = {"cpu": own.get("cpu", 2000), "memory": 1024}
    assert world.says() == (wanted, "" if own else OUT_OF_RANGE)

    world.limit(defaultRequest={"memory": "2Ki"}, max={"cpu": "500m"})
    assert world.says() == ({**own, "memory": 2048}, OUT_OF_RANGE if own else "")
    # The same limits again change nothing.
    assert world.limit(defaultRequest={"memory": "2Ki"}, max={"cpu": "500m"}) == []

    world.drop()
    assert world.says() == (own, "")


def test_of_several_limit_ranges_the_first_by_name_gives_the_defaults(world: Limited) -> None:
    world.job("JobSubmitted", bare())

    world.limit("b", defaultRequest={"cpu": 2, "memory": "1Ki"})
    world.limit("a", defaultRequest={"cpu": 1})

    assert world.says()[0] == {"cpu": 1000, "memory": 1024}


def test_runtime_classes_are_like_limit_ranges(world: Limited) -> None:
    job = bare(resources={"requests": {"cpu": 1}})
    job["spec"]["template"]["spec"]["runtimeClassName"] = "kata"
    world.job("JobSubmitted", job)
    world.submit("b")

    world.apply_object("RuntimeClass", "kata", handler="kata", overhead={"podFixed": {"cpu": "250m"}})
    assert (world.says()[0], world.says("b")[0]) == ({"cpu": 1250}, {"cpu": 1000})

    world.drop("RuntimeClass", "kata")
    assert world.says()[0] == {"cpu": 1000}


def test_what_has_quota_stays_as_it_is(world: Limited) -> None:
    """Until it has lost its quota: then it queues as the limit ranges are by then."""
    world.limit(defaultRequest={"cpu": 2})
    world.job("JobSubmitted", bare())
    world.admit()

    (marked,) = world.limit(defaultRequest={"cpu": 3}, max={"cpu": 1})
    assert isinstance(marked, WorkloadUpdated)
    assert marked.changes.keys() == {"misconfigured"}
    assert world.says() == ({"cpu": 2000}, OUT_OF_RANGE)

    world.evict()
    world.job("JobStopped", {"attempt": 1})
    assert world.says() == ({"cpu": 2000}, OUT_OF_RANGE)
    (event,) = world.release()
    assert isinstance(event, WorkloadUpdated)
    assert event.cause == world.seq
    assert world.says() == ({"cpu": 3000}, OUT_OF_RANGE)


def test_who_may_not_have_its_quota_again_says_so_while_it_has_it(world: Limited) -> None:
    """The scheduler may reserve anew as soon as it is released, before anybody could tell it.

    For as long as the mark holds, and not longer: out of range, within it with other amounts, as it is.
    """
    world.limit(defaultRequest={"cpu": 2})
    world.job("JobSubmitted", bare())
    world.admit()

    world.limit(defaultRequest={"cpu": 2}, max={"cpu": 1})
    assert world.says() == ({"cpu": 2000}, OUT_OF_RANGE)
    world.limit(defaultRequest={"cpu": 1}, max={"cpu": 1})
    assert world.says() == ({"cpu": 2000}, TO_BE_ADJUSTED)
    world.limit(defaultRequest={"cpu": 2}, max={"cpu": 4})
    assert world.says() == ({"cpu": 2000}, "")

    world.limit(defaultRequest={"cpu": 1}, max={"cpu": 1})
    world.evict()
    world.job("JobStopped", {"attempt": 1})
    world.release()
    assert world.says() == ({"cpu": 1000}, "")


def test_a_running_job_can_be_edited_although_the_defaults_are_others(world: Limited) -> None:
    """Its pods are what its manifest says, as before; only the edit changes anything."""
    world.limit(defaultRequest={"cpu": 2})
    job = bare()
    world.job("JobSubmitted", job)
    world.admit()
    world.limit(defaultRequest={"cpu": 3}, max={"cpu": 1})

    job["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = "60"
    (event,) = world.job("JobSubmitted", job)

    assert isinstance(event, WorkloadUpdated)
    assert (event.maximum_execution_time_s, event.pod_sets, event.misconfigured) == (60, None, None)


def test_an_edit_of_a_waiting_job_is_made_of_its_new_manifest(world: Limited) -> None:
    world.limit(defaultRequest={"cpu": 2}, max={"cpu": 3})
    world.job("JobSubmitted", bare())

    (event,) = world.job("JobSubmitted", bare(resources={"requests": {"cpu": 4}}))

    assert isinstance(event, WorkloadUpdated)
    assert world.says() == ({"cpu": 4000}, OUT_OF_RANGE)
    world.drop()
    assert world.says() == ({"cpu": 4000}, "")


def test_quota_for_what_the_job_was_before_is_given_back(world: Limited) -> None:
    """The scheduler has not heard of the limit range when it reserves: the job gets a new workload."""
    world.job("JobSubmitted", bare(resources={"requests": {"cpu": 1}}))
    world.limit(defaultRequest={"memory": "1Gi"})
    record = world.state_of().record

    usage = {"cpu": 1000}
    assigned = PodSetAssignment(name="main", count=1, flavors={"cpu": "default"}, usage=usage)
    reserved = QuotaReserved(cause=1, workload=record.key, cluster_queue="cq", pod_sets=(assigned,))
    world.put(reserved)

    assert "WorkloadCreated" in names(world.settle())
    assert world.says()[0] == {"cpu": 1000, "memory": 2**30}


def elastic(parallelism: int) -> dict[str, Any]:
    job = bare(parallelism=parallelism)
    job["metadata"]["annotations"] = {ELASTIC: "true"}
    return job


def test_growth_keeps_the_pods_of_the_job_and_is_judged(world: Limited) -> None:
    """Pods of one job are alike, whatever the defaults are by now; but no new ones out of range."""
    world.limit(defaultRequest={"cpu": 2})
    world.job("JobSubmitted", elastic(1))
    world.admit()
    world.limit(defaultRequest={"cpu": 3})

    events = world.job("JobSubmitted", elastic(2))
    slice_ = next(event for event in events if isinstance(event, WorkloadCreated)).workload
    pending = world.state_of().pending
    assert pending is not None
    assert slice_.pod_sets[0].requests == {"cpu": 2000}
    assert pending.misconfigured == ""

    world.limit(defaultRequest={"cpu": 3}, max={"cpu": 1})
    pending = world.state_of().pending
    assert pending is not None
    assert (pending.pod_sets[0].requests, pending.misconfigured) == ({"cpu": 2000}, OUT_OF_RANGE)
    assert world.says() == ({"cpu": 2000}, OUT_OF_RANGE)  # it runs on, with what it has


def test_a_finished_job_is_left_alone(world: Limited) -> None:
    world.submit()
    world.admit()
    world.job("JobFinished", {"attempt": 1})

    assert world.limit(max={"cpu": "100m"}) == []
