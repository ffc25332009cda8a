"""Families whose executors crash and whose queues change under them: nobody runs without quota."""

from typing import Any

import pytest

from sluice.core.views import why_pending
from sluice.events.scheduler import Evicted
from sluice.events.variants import (
    ParentAdmitted,
    ParentEvicted,
    ParentMarked,
    ParentUnmarked,
    VariantCreated,
    VariantStopped,
)
from tests.support.family_world import (
    FamilyWorld,
    cell,
    cluster_queue,
    configuration,
    flavor,
    job,
    local_queue,
)
from tests.support.objects import kueue_object, priority_class

HIGH = priority_class("high", 100)
TRY = {"migration": {"mode": "TryPreferredFlavors"}}
OFF = configuration(featureGates={"ConcurrentAdmission": False})
ON = configuration(featureGates={"ConcurrentAdmission": True})


def reasons(world: FamilyWorld) -> list[tuple[str, str]]:
    return [(e.reason, e.message) for e in world.events(Evicted) if isinstance(e, Evicted)]


def running(world: FamilyWorld, *names: str) -> list[str]:
    """Return which of the jobs an executor may run now: told to, or told to stop and not stopped yet."""
    entries = {name: world.dispatch(name) for name in names}
    return [name for name, e in entries.items() if e is not None and (e.state == "Running" or e.stop)]


def explicit(**variants: list[str]) -> dict[str, Any]:
    policy = {
        "migration": {"mode": "TryPreferredFlavors"},
        "explicitVariants": [{"name": n, "allowedResourceFlavors": f} for n, f in variants.items()],
    }
    return cluster_queue({"res": 1, "od": 1, "spot": 1}, policy)


# CA7


def test_a_crash_is_settled_before_the_parent_is_admitted_again() -> None:
    """An executor crashes while another job waits: the scheduler gives the quota away, and only one runs."""
    world = cell(cluster_queue({"res": 1}), HIGH)
    world.submit("a").settle_all()
    world.report("a", "JobStopped")
    world.step("slices")
    world.step("variants")
    world.submit("b", priority_class="high")
    world.step("slices")
    world.step("variants")
    world.step("scheduler")
    world.settle()
    assert running(world, "a", "b") == ["b"]
    assert [reason for reason, _ in reasons(world)] == ["NodeFailures"]
    world.verify()


def test_no_attempt_begins_between_the_stop_and_its_settlement() -> None:
    """The variant is admitted until the scheduler has heard of the stop; that is not an admission."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    world.submit("a").settle_all()
    world.report("a", "JobStopped")
    world.step("slices")
    for _ in range(3):
        world.step("variants")
        world.step("slices")
    assert len(world.events(ParentAdmitted)) == 1
    world.settle_all()
    assert len(world.events(ParentAdmitted)) == 2
    assert world.flavor_of("a") == "res"
    world.verify()


def test_what_was_said_of_a_variant_that_is_gone_is_not_said_of_the_next_one() -> None:
    """A variant is made anew while its admission is under way: the new one has not been admitted."""
    queue = explicit(one=["res", "od"], two=["spot"])
    world = cell(queue)
    world.submit("a")
    world.step("slices")
    world.step("variants")
    world.apply(explicit(one=["od"], two=["spot"]))
    # The scheduler has not heard of the edit yet, nor the variant-controller of the admission.
    world.step("variants")
    world.step("scheduler", len(world.log) - world.services["scheduler"].seen - 2)
    world.step("variants")
    world.step("slices")
    world.check()
    world.settle_all()
    assert world.flavor_of("a") == "od"
    names = [e.workload.key for e in world.events(VariantCreated) if isinstance(e, VariantCreated)]
    assert len(names) == len(set(names)) == 3
    world.verify()


# CA4


def changed(world: FamilyWorld, how: str) -> None:
    """Make the queue of running jobs a racing one."""
    if how == "gate":
        world.apply(ON)
        return
    if how == "local queue":
        world.delete("LocalQueue", "main", "default").settle()
        world.apply(local_queue("main", "racing"))
        return
    world.delete("ClusterQueue", "plain")
    world.apply(cluster_queue({"res": 1, "od": 1}, TRY, name="plain"))


def plain_cell(how: str) -> FamilyWorld:
    if how == "gate":
        return cell(cluster_queue({"res": 1, "od": 1}), OFF)
    world = cell(cluster_queue({"res": 1, "od": 1}, name="racing"))
    world.apply(cluster_queue({"od": 1}, {}, name="plain"), local_queue("main", "plain")).settle()
    return world


@pytest.mark.parametrize("how", ["gate", "local queue", "cluster queue"])
def test_a_running_job_is_stopped_before_it_becomes_a_parent(how: str) -> None:
    world = plain_cell(how)
    world.submit("a").settle_all()
    assert running(world, "a") == ["a"]
    changed(world, how)
    world.settle()
    assert (entry := world.dispatch("a")) is not None
    assert entry.stop
    assert not world.events(ParentMarked)
    world.settle_all()
    assert len(world.events(ParentMarked)) == 1
    assert len(reasons(world)) == 1
    assert reasons(world)[0][0] in ("ConcurrentAdmission", "ClusterQueueStopped")
    assert world.flavor_of("a") == "res"
    world.check()
    world.verify()


@pytest.mark.parametrize("how", ["gate", "local queue", "cluster queue"])
def test_a_running_family_is_stopped_before_its_job_is_ordinary(how: str) -> None:
    """And its quota is not had twice meanwhile: the parent does not queue beside its variants."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    world.apply(cluster_queue({"od": 1}, {}, name="plain"))
    world.submit("a").settle_all()
    if how == "gate":
        world.apply(OFF)
    elif how == "local queue":
        world.delete("LocalQueue", "main", "default").settle()
        world.apply(local_queue("main", "plain"))
    else:
        world.delete("ClusterQueue", "main")
        world.apply(cluster_queue({"od": 1}, {}))
    world.settle()
    assert (entry := world.dispatch("a")) is not None
    assert entry.stop
    assert not world.events(ParentUnmarked)
    world.check()
    world.settle_all()
    assert len(world.events(ParentUnmarked)) == 1
    assert world.flavor_of("a") == ("res" if how == "gate" else "od")
    world.check()
    world.verify()


def test_a_reservation_is_given_up_for_variants() -> None:
    """A job that waits for checks with quota of its own has nothing to stop: its quota is free at once."""
    check = kueue_object("AdmissionCheck", "slow", {"controllerName": "sluice.dev/external"})
    strategy = {"admissionChecks": [{"name": "slow", "onFlavors": []}]}
    world = cell(cluster_queue({"res": 1}, admissionChecksStrategy=strategy), OFF, check)
    world.submit("a").settle()
    world.apply(ON).settle()
    assert [v.assignment is not None for v in world.variants("a").values()] == [True]
    assert [reason for reason, _ in reasons(world)] == ["ConcurrentAdmission"]
    world.check()
    world.verify()


def admitted_jobs(world: FamilyWorld, *names: str) -> list[str]:
    return [name for name in names if world.flavor_of(name)]


def two_jobs(*more: dict[str, Any], **spec: Any) -> FamilyWorld:
    """One runs, or has quota; one of less priority waits for the same."""
    world = cell(cluster_queue({"res": 1}, **spec), OFF, HIGH, *more)
    world.submit("hi", priority_class="high").settle()
    world.submit("lo").settle_all()
    return world


ORDERS = [
    ("slices", "variants", "scheduler"),
    ("scheduler", "variants", "slices"),
    ("scheduler", "slices", "variants"),
]


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_what_is_stopped_to_race_is_not_overtaken_by_less(order: tuple[str, ...]) -> None:
    """Its quota goes to nobody before its variants can ask for it, whoever hears of what first."""
    world = two_jobs()
    world.apply(ON)
    for _ in range(12):
        for service in order:
            world.step(service)
        world.obey()
        assert not world.flavor_of("lo")
    world.settle_all()
    assert admitted_jobs(world, "hi", "lo") == ["hi"]
    assert [key for key in world.view().workloads if not key.startswith("default/job-hi")]
    world.check()
    world.verify()


def test_what_is_reserved_as_its_queue_begins_to_race_is_not_overtaken_by_less() -> None:
    check = kueue_object("AdmissionCheck", "slow", {"controllerName": "sluice.dev/external"})
    strategy = {"admissionChecks": [{"name": "slow", "onFlavors": []}]}
    world = two_jobs(check, admissionChecksStrategy=strategy)
    world.apply(ON).settle_all()
    assert [v.assignment is not None for v in world.variants("hi").values()] == [True]
    assert [v.assignment is not None for v in world.variants("lo").values()] == [False]
    world.check()
    world.verify()


def test_quota_is_kept_while_the_controller_of_variants_is_away() -> None:
    """Nobody gets it meanwhile; with the gate off again it is given back, and the job runs as before."""
    world = two_jobs()
    world.apply(ON)
    for _ in range(10):
        world.step("scheduler")
        world.step("slices")
        world.obey()
    assert admitted_jobs(world, "hi", "lo") == []
    world.apply(OFF)
    for _ in range(10):
        world.step("scheduler")
        world.step("slices")
        world.obey()
    assert admitted_jobs(world, "hi", "lo") == ["hi"]
    world.settle_all()
    world.check()
    world.verify()


@pytest.mark.parametrize("what", ["delete", "edit", "flavors"])
def test_quota_is_not_kept_for_what_will_never_race(what: str) -> None:
    """The job ends or gets another workload meanwhile, or allows no flavor of the queue."""
    world = cell(cluster_queue({"res": 1}), OFF)
    manifest = picky("hi", "other") if what == "flavors" else job("hi")
    world.message("job.default.hi", "JobSubmitted", manifest).settle()
    world.submit("lo").settle_all()
    if what == "flavors":
        # Without the gate its restriction is not heard (CA1).
        assert admitted_jobs(world, "hi", "lo") == ["hi"]
    world.apply(ON).settle()
    if what == "delete":
        world.message("job.default.hi", "JobDeleted", {})
    elif what == "edit":
        world.submit("hi", 2)
    world.settle_all()
    assert admitted_jobs(world, "lo") == ["lo"]
    world.check()
    world.verify()


def test_nobody_reserves_beside_the_other_kind_of_quota() -> None:
    """A job gets quota while it is marked as a parent: its variants wait until it has stopped."""
    world = cell(cluster_queue({"res": 1, "od": 1}), OFF)
    world.submit("a")
    world.step("slices")
    world.apply(ON)
    world.step("variants")  # marks it, before
    world.step("scheduler", 2)  # the scheduler, which knows of no gate yet, has given it quota
    world.settle()
    assert world.dispatch("a") is not None
    world.check()
    world.settle_all()
    assert world.flavor_of("a") == "res"
    assert len(world.variants("a")) == 2
    world.check()
    world.verify()


@pytest.mark.parametrize("what", ["crash", "drained", "out of time", "deleted"])
@pytest.mark.parametrize("gone", ["LocalQueue", "ClusterQueue"])
def test_a_family_stops_although_its_queue_is_gone(what: str, gone: str) -> None:
    """The handshake does not depend on a policy that nobody knows any more (G9)."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    manifest = job("a")
    manifest["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = "100"
    world.message("job.default.a", "JobSubmitted", manifest).settle_all()
    world.delete(gone, "main", "default" if gone == "LocalQueue" else "").settle()
    if what == "crash":
        world.report("a", "JobStopped")
    elif what == "drained":
        world.apply(cluster_queue({"res": 1, "od": 1}, stopPolicy="HoldAndDrain"))
    elif what == "out of time":
        world.run_until(101)
    else:
        world.message("job.default.a", "JobDeleted", {})
    world.settle_all()
    world.check()
    assert running(world, "a") == []
    assert not [w.key for w in world.services["scheduler"].state.world.workloads.values() if w.assignment]
    world.verify()


def test_a_queue_that_comes_back_as_an_ordinary_one_stops_its_families() -> None:
    """Also when the queue was missing for as long as services needed to settle."""
    world = cell(cluster_queue({"res": 1}))
    world.submit("a").settle_all()
    world.delete("LocalQueue", "main", "default")
    world.apply(local_queue("main", "other")).settle_all()
    assert running(world, "a") == ["a"]
    world.apply(cluster_queue({"res": 1}, {}, name="other")).settle_all()
    assert len(world.events(ParentUnmarked)) == 1
    assert world.flavor_of("a") == "res"
    world.check()
    world.verify()


# CA4: what the job itself allows


def picky(name: str, *flavors: str) -> dict[str, Any]:
    manifest = job(name)
    manifest["metadata"]["annotations"] = {
        "kueue.x-k8s.io/workload-allowed-resource-flavors": ",".join(flavors)
    }
    return manifest


def test_a_job_restricts_its_variants() -> None:
    """A variant has the flavors that both allow, and is not made when there are none."""
    world = cell(explicit(one=["res", "od"], two=["spot"], three=["od", "spot"]))
    world.message("job.default.a", "JobSubmitted", picky("a", "od", "res")).settle_all()
    found = {name: list(v.record.allowed_flavors) for name, v in world.variants("a").items()}
    assert found == {"one": ["res", "od"], "three": ["od"]}
    assert [v.record.preference for v in world.variants("a").values()] == [0, 2]
    notes = [v.record.annotations for v in world.variants("a").values()]
    assert [n["kueue.x-k8s.io/workload-allowed-resource-flavors"] for n in notes] == ["res,od", "od"]
    world.verify()


def test_a_job_of_our_own_kind_restricts_its_variants() -> None:
    world = cell(cluster_queue({"res": 1, "od": 1}))
    manifest = {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {
            "queueName": "main",
            "resources": {"cpu": 1},
            "command": ["true"],
            "admissionConstraints": {"allowedResourceFlavors": ["od"]},
        },
    }
    world.message("job.default.a", "JobSubmitted", manifest).settle_all()
    assert list(world.variants("a")) == ["od"]
    assert world.flavor_of("a") == "od"
    world.verify()


def test_a_job_that_allows_no_flavor_of_its_queue_says_so() -> None:
    """It has no variants, and its parent says why (CA4); nothing is wrong with that."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    world.message("job.default.a", "JobSubmitted", picky("a", "other", "spot")).settle_all()
    assert world.variants("a") == {}
    view = world.view()
    (parent,) = (view.workloads[key] for key in view.parents)
    message = (
        "no variant may use any of the flavors that the job allows (other, spot): "
        "those of the variants of ClusterQueue main are res, od"
    )
    assert why_pending(view, parent) == ("NoMatchingFlavor", message)
    world.apply(flavor("spot"), cluster_queue({"res": 1, "spot": 1})).settle_all()
    assert world.flavor_of("a") == "spot"
    world.verify()


# CA13: edits of explicit variants


def edited(before: dict[str, list[str]], after: dict[str, list[str]]) -> FamilyWorld:
    """Let a job run, and edit the variants of its queue."""
    world = cell(explicit(**before))
    world.submit("a").settle_all()
    world.apply(explicit(**after)).settle()
    world.check()
    return world


EDITS = {
    "flavors within which it runs": ({"one": ["od"]}, {"one": ["od", "spot"]}, True),
    "fewer flavors, its own among them": ({"one": ["od", "spot"]}, {"one": ["od"]}, True),
    "flavors of another variant": (
        {"one": ["od"], "two": ["spot"]},
        {"one": ["od"], "two": ["spot", "res"]},
        True,
    ),
    "a variant added": ({"one": ["od"]}, {"one": ["od"], "two": ["spot"]}, True),
    "another variant removed": ({"one": ["od"], "two": ["spot"]}, {"one": ["od"]}, True),
    "another order": ({"one": ["od"], "two": ["spot"]}, {"two": ["spot"], "one": ["od"]}, None),
    "its flavor taken away": ({"one": ["od", "spot"]}, {"one": ["res", "spot"]}, False),
    "its variant removed": ({"one": ["od"], "two": ["spot"]}, {"two": ["spot"]}, False),
    "its variant renamed": ({"one": ["od"]}, {"uno": ["od"]}, False),
}


@pytest.mark.parametrize(("before", "after", "stays"), EDITS.values(), ids=EDITS)
def test_an_edit_stops_only_whose_flavor_is_gone(
    before: dict[str, list[str]], after: dict[str, list[str]], stays: bool | None
) -> None:
    """What may go on does; what may not is stopped for ConcurrentAdmission, and for nothing else (CA13)."""
    world = edited(before, after)
    stopped = [e.reason for e in world.events(ParentEvicted) if isinstance(e, ParentEvicted)]
    world.settle_all()
    world.check()
    if stays is None:
        # The variant that is preferred now takes over, as ever.
        assert [reason for reason, _ in reasons(world)] == ["FlavorMigration"]
    elif stays:
        assert not stopped
        assert not reasons(world)
        assert world.flavor_of("a") == "od"
    else:
        assert stopped == ["ConcurrentAdmission"]
        assert {reason for reason, _ in reasons(world)} <= {"ConcurrentAdmission"}
        assert world.flavor_of("a") in after[next(iter(after))]
    found = {name: list(v.record.allowed_flavors) for name, v in world.variants("a").items()}
    assert found == after
    assert list(found) == list(after)
    shown = world.view().workloads
    for variant in world.variants("a").values():
        flavors = list(variant.record.allowed_flavors)
        record = world.services["scheduler"].state.world.workloads[variant.key].record
        assert list(record.allowed_flavors) == flavors
        assert list(shown[variant.key].record.allowed_flavors) == flavors
        assert record.annotations["kueue.x-k8s.io/workload-allowed-resource-flavors"] == ",".join(flavors)
    world.verify()


def test_a_stop_for_an_edit_is_no_failure_of_a_node() -> None:
    """Whoever hears of the stop hears why it was (G10)."""
    world = edited({"one": ["od", "spot"]}, {"one": ["res"]})
    world.settle_all()
    (stop,) = [e for e in world.events(VariantStopped) if isinstance(e, VariantStopped)]
    assert (stop.reason, stop.message) == ("ConcurrentAdmission", "No variant is running")
    assert world.flavor_of("a") == "res"
    world.verify()


def test_an_edit_while_a_variant_leaves_is_not_forgotten() -> None:
    """The variant that is leaving anyway is made anew when it has left."""
    before, after = (
        explicit(one=["res"], two=two)["spec"]["concurrentAdmissionPolicy"] for two in (["od"], ["spot"])
    )
    world = cell(cluster_queue({"res": 0, "od": 1, "spot": 0}, before))
    world.submit("a").settle_all()
    assert world.flavor_of("a") == "od"
    world.apply(cluster_queue({"res": 1, "od": 1, "spot": 0}, before)).settle()
    assert (entry := world.dispatch("a")) is not None
    assert entry.stop
    world.apply(cluster_queue({"res": 0, "od": 1, "spot": 1}, after)).settle_all()
    found = {name: list(v.record.allowed_flavors) for name, v in world.variants("a").items()}
    assert found == {"one": ["res"], "two": ["spot"]}
    world.check()
    world.verify()


@pytest.mark.parametrize("how", ["its flavor taken away", "the gate closed", "the gate opened"])
def test_time_that_a_job_ran_counts_whatever_it_becomes(how: str) -> None:
    """The maximum execution time is the job's, not that of one of its variants (SC7)."""
    world = cell(cluster_queue({"res": 1, "od": 1}), *((OFF,) if how == "the gate opened" else ()))
    manifest = job("a")
    manifest["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = "100"
    world.message("job.default.a", "JobSubmitted", manifest).settle_all()
    world.run_until(60)
    match how:
        case "its flavor taken away":
            world.apply(cluster_queue({"od": 1}))
        case "the gate closed":
            world.apply(OFF)
        case _:
            world.apply(ON)
    world.settle_all()
    assert running(world, "a") == ["a"]
    world.run_until(30)
    assert running(world, "a") == ["a"]
    world.run_until(11)
    world.settle_all()
    assert running(world, "a") == []
    world.verify()


def test_what_a_parent_says_later_its_variants_say_too() -> None:
    """A gate of the user's that is taken away is taken away from the variants (CA4)."""
    world = cell(cluster_queue({"res": 1}))
    gated = job("a")
    gated["metadata"]["annotations"] = {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"}
    world.message("job.default.a", "JobSubmitted", gated).settle_all()
    assert world.flavor_of("a") == ""
    world.message("job.default.a", "JobSubmitted", job("a")).settle_all()
    assert world.flavor_of("a") == "res"
    world.verify()


def test_of_two_that_may_be_admitted_the_preferred_one_is() -> None:
    """Whichever was made first: or they would evict each other, one in the place of the other (CA10)."""
    check = kueue_object("AdmissionCheck", "slow", {"controllerName": "sluice.dev/external"})
    strategy = {"admissionChecksStrategy": {"admissionChecks": [{"name": "slow", "onFlavors": []}]}}
    before, after = explicit(one=["od"]), explicit(best=["res"], one=["od"])
    for queue in (before, after):
        queue["spec"].update(strategy)
    world = cell(before, check)
    world.submit("a").settle_all()
    world.apply(after).settle_all()
    variants = world.variants("a")
    assert list(variants) == ["best", "one"]
    assert variants["best"].record.uid > variants["one"].record.uid
    for name in ("one", "best"):
        world.checks_say(variants[name].key, "Ready")
    world.settle_all()
    assert "FlavorMigration" not in [reason for reason, _ in reasons(world)]
    assert world.flavor_of("a") == "res"
    world.verify()


@pytest.mark.parametrize("how", ["deleted while it moves", "deleted", "edited"])
def test_a_job_that_is_to_end_holds_no_quota_to_move_to(how: str) -> None:
    """What it was about to move to is anybody's at once, not only when the job has stopped."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    world.submit("other").settle_all()
    world.submit("a").settle_all()
    world.report("a", "JobPodsReady", executor="x")
    if how == "deleted while it moves":
        world.report("other", "JobFinished", success=True).settle()
        assert world.variants("a")["res"].assignment
    if how == "edited":
        world.submit("a", count=2).settle()  # what runs is stopped for a new workload
    else:
        world.message("a", "JobDeleted", {}).settle()
    if how != "deleted while it moves":
        world.report("other", "JobFinished", success=True).settle()

    assert [name for name, variant in world.variants("a").items() if variant.assignment] == ["od"]
    world.submit("next").settle()
    assert world.flavor_of("next") == "res"
    world.settle_all()
    world.check()
    world.verify()
