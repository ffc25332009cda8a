"""The preferred variant goes first, even if it has to preempt where another one would just fit (0017)."""

import pytest

from sluice.api.labels import ALLOWED_RESOURCE_FLAVORS
from sluice.core import step_size
from sluice.events.scheduler import BlockedOnPreemptionGates, Evicted, Preempted
from sluice.events.variants import ParentAdmitted, PreemptionGateClosed, PreemptionGateOpened
from tests.support.explained import explained
from tests.support.family_world import FamilyWorld, cell, cluster_queue, job
from tests.support.objects import kueue_object, priority_class

HIGH = priority_class("high", 100)
PREEMPTS = {"withinClusterQueue": "LowerPriority"}
MODES = ("TryPreferredFlavors", "RetainFirstAdmission")


def taken(mode: str, **flavors: int) -> FamilyWorld:
    """Return a cell in which a job of low priority has the preferred flavor, and another one comes."""
    policy = {"migration": {"mode": mode}}
    world = cell(cluster_queue({"res": 1, **flavors}, policy, preemption=PREEMPTS), HIGH)
    world.submit("low").settle_all()
    assert world.flavor_of("low") == "res"
    world.submit("urgent", priority_class="high").settle()
    return world


@pytest.mark.parametrize("mode", MODES)
def test_the_preferred_flavor_is_preempted_for_though_another_is_free(mode: str) -> None:
    """Both modes: the job starts on the preferred flavor, once, and does not start elsewhere meanwhile."""
    world = taken(mode, od=1)
    assert world.flavor_of("urgent") == ""
    world.settle_all()
    assert (world.flavor_of("urgent"), world.flavor_of("low")) == ("res", "od")
    assert [e.reason for e in world.events(Evicted) if isinstance(e, Evicted)] == ["Preempted"]
    world.verify()


@pytest.mark.parametrize("mode", MODES)
def test_a_job_does_not_wait_for_its_victims_for_ever(mode: str) -> None:
    """A victim that does not stop: when its turn is over (CA11) the next variant starts."""
    world = taken(mode, od=1)
    world.run_until(299)
    assert world.flavor_of("urgent") == ""
    world.run_until(3)
    assert world.flavor_of("urgent") == "od"
    closed = [e for e in world.events(PreemptionGateClosed) if isinstance(e, PreemptionGateClosed)]
    assert closed[0].spent
    world.settle_all()
    world.verify()


@pytest.mark.parametrize("mode", MODES)
def test_without_anybody_to_preempt_the_next_flavor_is_taken_at_once(mode: str) -> None:
    policy = {"migration": {"mode": mode}}
    world = cell(cluster_queue({"res": 1, "od": 1}, policy, preemption=PREEMPTS), HIGH)
    for name in ("first", "second"):
        world.submit(name, priority_class="high")
    world.settle()
    assert (world.flavor_of("first"), world.flavor_of("second")) == ("res", "od")
    assert world.events(Preempted) == []
    world.verify()


def test_jobs_of_other_families_are_not_held_up() -> None:
    """Only the siblings of who preempts leave a free flavor alone."""
    world = taken("TryPreferredFlavors", od=1, spot=1)
    world.submit("plain").settle()
    assert world.flavor_of("plain") == "od"
    world.settle_all()
    assert world.flavor_of("urgent") == "res"
    world.verify()


def test_a_preferred_variant_that_is_put_off_lets_the_others_go() -> None:
    """It was to preempt first, and gets a createDelaySeconds before anybody has heard of that."""

    def queue(**delays: int) -> dict[str, object]:
        variants = [
            {"name": name, "allowedResourceFlavors": [name], "createDelaySeconds": delays.get(name, 0)}
            for name in ("res", "od")
        ]
        policy = {"migration": {"mode": "TryPreferredFlavors"}, "explicitVariants": variants}
        return cluster_queue({"res": 1, "od": 1}, policy, preemption=PREEMPTS)

    world = cell(queue(), HIGH)
    world.submit("low")
    picky = job("other", priority_class="high")
    picky["metadata"]["annotations"] = {ALLOWED_RESOURCE_FLAVORS: "od"}
    world.message("job.default.other", "JobSubmitted", picky).settle_all()
    assert (world.flavor_of("low"), world.flavor_of("other")) == ("res", "od")
    world.submit("urgent", priority_class="high")
    for writer in ("slices", "variants", "scheduler"):
        assert world.step(writer)
    assert len(world.events(BlockedOnPreemptionGates)) == 1
    world.apply(queue(res=60)).settle_all()
    world.report("other", "JobFinished", success=True).settle_all()
    assert (world.flavor_of("urgent"), world.flavor_of("low")) == ("od", "res")
    world.verify()


@pytest.mark.parametrize("mode", MODES)
def test_whose_turn_it_is_gets_what_its_victims_leave(mode: str) -> None:
    """A better sibling comes to need its gate while the victims leave: its turn is the next one."""
    policy = {"migration": {"mode": mode}}
    queue = cluster_queue({"res": 2, "od": 2}, policy, preemption=PREEMPTS)
    world = cell(queue, HIGH, priority_class("middle", 50))
    world.submit("small").settle_all()
    world.submit("first", priority_class="high").settle_all()
    world.submit("large", cpu=2).settle_all()
    assert [world.flavor_of(name) for name in ("small", "first", "large")] == ["res", "res", "od"]
    world.submit("urgent", cpu=2, priority_class="middle").settle()
    (preempted,) = world.events(Preempted)
    assert isinstance(preempted, Preempted)

    world.report("first", "JobFinished", success=True).settle()
    blocked = [event.workload for event in world.events(BlockedOnPreemptionGates)]
    assert world.variants("urgent")["res"].key in blocked, "it would preempt `small` now, if it might"
    world.settle_all()
    given = [event for event in world.events(ParentAdmitted) if "urgent" in event.workload]
    assert given[0].pod_sets[0].flavors == {"cpu": "od"}
    assert not any(event.spent for event in world.events(PreemptionGateClosed))
    world.check()
    world.verify()


def test_variants_of_one_victim_go_in_one_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each could have what they share again at once while a sibling holds it: nothing would come of it."""
    monkeypatch.setattr(step_size, "MOST", 1500)
    check = kueue_object("AdmissionCheck", "slow", {"controllerName": "sluice.dev/external"})
    strategy = {"admissionChecks": [{"name": "slow", "onFlavors": []}]}
    names = ("one", "two", "three", "four")
    policy = {
        "migration": {"mode": "TryPreferredFlavors"},
        "explicitVariants": [{"name": name, "allowedResourceFlavors": ["res"]} for name in names],
    }
    queue = cluster_queue({"res": 3}, policy, preemption=PREEMPTS, admissionChecksStrategy=strategy)
    world = cell(queue, HIGH, check)
    world.submit("low", cpu=3).settle_all()
    assert all(variant.assignment for variant in world.variants("low").values())
    world.submit("urgent", cpu=3, priority_class="high").settle_all()

    assert not any(variant.assignment for variant in world.variants("low").values())
    assert world.variants("urgent")["one"].assignment
    world.verify()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("taken_too", [False, True])
def test_the_last_variant_has_its_turn_before_the_first_one_has_another(mode: str, taken_too: bool) -> None:
    """Two victims that do not stop delay a job for two turns; then it takes what is free, or preempts."""
    policy = {"migration": {"mode": mode}}
    queue = cluster_queue({"res": 1, "od": 1, "spot": 1}, policy, preemption=PREEMPTS)
    world = cell(queue, HIGH)
    for name in ("one", "two", "three")[: 2 + taken_too]:
        world.submit(name).settle_all()
    world.submit("urgent", priority_class="high").settle()
    world.run_until(299)
    assert world.flavor_of("urgent") == ""
    world.run_until(310)
    spot = world.variants("urgent")["spot"]
    assert spot.gate_at is not None if taken_too else world.flavor_of("urgent") == "spot"
    world.settle_all()
    world.check()
    world.verify()


@pytest.mark.parametrize("mode", MODES)
def test_a_turn_that_is_over_gives_nothing_back_to_its_victims(mode: str) -> None:
    """Victims that need longer than a turn, and not equally long: what they leave is the variant's (CA11)."""
    policy = {"migration": {"mode": mode}}
    queue = cluster_queue({"res": 2, "spot": 2}, policy, preemption=PREEMPTS)
    world = cell(queue, HIGH)
    for name, cpu in (("stays", 2), ("slow", 1), ("slower", 1)):
        world.submit(name, cpu=cpu).settle_all()
    world.submit("urgent", cpu=2, priority_class="high").settle()
    world.run_until(301)
    assert {e.workload for e in world.events(Evicted)} == {
        world.variants("stays")["res"].key,
        world.variants("slow")["spot"].key,
        world.variants("slower")["spot"].key,
    }
    for name in ("slow", "slower"):
        world.run_until(300)
        world.report(name, "JobStopped").settle()
    assert world.flavor_of("urgent") == "spot"
    assert world.flavor_of("slow") == world.flavor_of("slower") == ""
    assert len(world.events(Preempted)) == 3
    turns = [event.workload for event in world.events(PreemptionGateOpened)]
    assert len(turns) == len(set(turns)), "who waits for victims needs no other turn"
    world.report("stays", "JobStopped").settle()
    world.settle_all()
    assert world.flavor_of("urgent") == ("res" if mode == "TryPreferredFlavors" else "spot")
    world.check()
    world.verify()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("policy", ["Anytime", "AfterCheckPassedOrOnDemand"])
def test_a_turn_ends_while_checks_of_what_it_has_got_go_on(mode: str, policy: str) -> None:
    """Else the next variant would wait for its turn as long as those checks take (CA11)."""
    check = kueue_object(
        "AdmissionCheck", "slow", {"controllerName": "sluice.dev/external", "preemptionPolicy": policy}
    )
    strategy = {"admissionChecks": [{"name": "slow", "onFlavors": ["res"]}]}
    racing = {"migration": {"mode": mode}}
    queue = cluster_queue({"res": 1, "od": 1}, racing, preemption=PREEMPTS, admissionChecksStrategy=strategy)
    world = cell(queue, HIGH, check)
    one = job("one")
    one["metadata"]["annotations"] = {ALLOWED_RESOURCE_FLAVORS: "res"}
    world.message("job.default.one", "JobSubmitted", one).settle_all()
    world.checks_say(world.variants("one")["res"].key, "Ready")
    world.settle_all()
    world.submit("two").settle_all()
    world.submit("urgent", priority_class="high").settle_all()
    variants = world.variants("urgent")
    assert (variants["res"].assignment is not None, world.flavor_of("urgent")) == (True, "")
    world.run_until(299)
    assert world.flavor_of("two") == "od"
    world.run_until(2)
    world.settle_all()
    assert world.flavor_of("urgent") == "od"
    world.check()
    world.verify()


def asks_first(mode: str) -> FamilyWorld:
    """Return a cell whose flavors are taken, and `urgent`, which asks its check before it preempts."""
    check = kueue_object(
        "AdmissionCheck",
        "slow",
        {"controllerName": "sluice.dev/external", "preemptionPolicy": "AfterCheckPassedOrOnDemand"},
    )
    queue = cluster_queue(
        {"res": 1, "od": 1},
        {"migration": {"mode": mode}},
        preemption=PREEMPTS,
        admissionChecksStrategy={"admissionChecks": [{"name": "slow"}]},
    )
    world = cell(queue, HIGH, check)
    for name, flavor in (("one", "res"), ("two", "od")):
        low = job(name)
        low["metadata"]["annotations"] = {ALLOWED_RESOURCE_FLAVORS: flavor}
        world.message(f"job.default.{name}", "JobSubmitted", low).settle_all()
        world.checks_say(world.variants(name)[flavor].key, "Ready").settle_all()
    world.submit("urgent", priority_class="high").settle()
    return world


@pytest.mark.parametrize("mode", MODES)
def test_nobody_waits_for_the_turn_of_a_variant_that_backs_off(mode: str) -> None:
    """A check lets the best one try again in an hour: the next one has its turn now, then the best again."""
    world = asks_first(mode)
    best, next_one = world.variants("urgent").values()
    assert (best.assignment is not None, best.gate_at is not None) == (True, True)
    world.checks_say(best.key, "Retry", requeue_s=3600).settle()
    best, next_one = world.variants("urgent").values()
    assert (best.gate_at, next_one.gate_at is not None) == (None, True)
    assert next_one.assignment is not None
    world.run_until(310)
    assert world.variants("urgent")["od"].assignment is not None, "its checks go on; nobody else needs a turn"
    world.run_until(3320)
    best, next_one = world.variants("urgent").values()
    assert (best.gate_at is not None, next_one.gate_at) == (True, None)
    world.settle_all()
    world.check()
    world.verify()


@pytest.mark.parametrize("mode", MODES)
def test_checks_that_take_longer_than_a_turn_are_waited_for(mode: str) -> None:
    """Each variant has its turn once; then the one that is asked for is so until its checks have answered."""
    world = asks_first(mode)
    world.run_until(3600)
    turns = [event.workload for event in world.events(PreemptionGateOpened)]
    variants = world.variants("urgent")
    assert turns == [variants["res"].key, variants["od"].key]
    assert [variants[name].assignment is not None for name in ("res", "od")] == [False, True]
    report = explained(world, variants["res"].key)
    assert not any("its turn to preempt" in remedy.text for remedy in report.remedies), "it does not come"
    world.checks_say(variants["od"].key, "Ready")
    world.settle_all()
    assert world.flavor_of("urgent") == "od"
    world.check()
    world.verify()


def test_who_waits_for_victims_no_more_has_another_turn() -> None:
    """When all have had theirs, also where the last variant can have nothing; and no earlier."""
    queue = cluster_queue({"res": 2, "od": 2, "spot": 1}, preemption=PREEMPTS)
    world = cell(queue, HIGH, priority_class("higher", 200))
    for name in ("one", "two"):
        world.submit(name, cpu=2).settle_all()
    world.submit("urgent", cpu=2, priority_class="high").settle()
    world.run_until(900)
    turns = [event.workload for event in world.events(PreemptionGateOpened)]
    assert len(turns) == len(set(turns)) == 2
    world.submit("urgent", cpu=2, priority_class="higher").settle()
    world.run_until(900)
    turns = [event.workload for event in world.events(PreemptionGateOpened)]
    assert turns[2:] == turns[:2], "it queues anew, and preempts nobody else"
    assert len(world.events(Preempted)) == 2
    world.settle_all()
    world.verify()


@pytest.mark.parametrize("mode", MODES)
def test_who_preempts_after_all_waits_for_its_victims(mode: str) -> None:
    """A variant could preempt nobody in its turn, and then somebody after all: it is its turn still (CA11).

    The better sibling, for which there was too little quota at all, asks for its first turn meanwhile.
    """
    policy = {"migration": {"mode": mode}}
    queues = [cluster_queue({"res": n, "od": 2}, policy, preemption=PREEMPTS) for n in (1, 2)]
    world = cell(queues[0], HIGH, priority_class("middle", 50))
    world.submit("first").settle_all()
    world.submit("second", cpu=2).settle_all()
    world.submit("urgent", cpu=2, priority_class="middle")
    for service in ("slices", "scheduler", "variants", "scheduler", "variants"):
        world.step(service)
    assert [event.workload for event in world.events(PreemptionGateOpened)] == [
        world.variants("urgent")["od"].key
    ]
    world.submit(
        "second", cpu=2, priority_class="high"
    ).settle_all()  # before the scheduler hears of the gate
    assert [world.flavor_of(name) for name in ("first", "second", "urgent")] == ["res", "od", ""]

    world.submit("second", cpu=2).settle()
    (preempted,) = world.events(Preempted)
    assert preempted.preemptor == world.variants("urgent")["od"].key
    world.apply(queues[1]).settle()
    assert world.variants("urgent")["res"].key in [e.workload for e in world.events(BlockedOnPreemptionGates)]
    world.submit("small").settle()
    world.settle_all()
    given = [event for event in world.events(ParentAdmitted) if "urgent" in event.workload]
    assert given[0].pod_sets[0].flavors == {"cpu": "od"}
    world.check()
    world.verify()
