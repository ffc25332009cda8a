"""What why and simulate say of jobs that race: only what can be done, and what then comes true."""

from typing import Any

import msgspec
import pytest

from sluice.events.slices import WorkloadRecord
from sluice.replay.explain.executors import Executors
from sluice.replay.explain.racing_sandbox import Race, policy_for
from sluice.replay.explain.report import Report
from sluice.replay.explain.sandbox import Outcome
from sluice.replay.explain.why import Others, explain
from sluice.replay.explain.why_text import plain_words
from sluice.replay.source.source import ListSource
from sluice.replay.source.time_travel import scheduler_at, variants_at
from tests.support.family_world import FamilyWorld, cell, cluster_queue, local_queue
from tests.support.objects import kueue_object
from tests.unit.replay.lint.test_invariants import CLASSES

CHECK = kueue_object("AdmissionCheck", "slow", {"controllerName": "sluice.dev/external"})
PREEMPTS = {"withinClusterQueue": "LowerPriority"}


def checked(*flavors: str) -> dict[str, Any]:
    return {"admissionChecksStrategy": {"admissionChecks": [{"name": "slow", "onFlavors": list(flavors)}]}}


def told(world: FamilyWorld, name: str) -> tuple[Report, str]:
    scheduler, variants = world.services["scheduler"], world.services["variants"]
    report = explain(scheduler.state, name, scheduler.upto, world.now, others=Others(families=variants.state))
    return report, "\n".join(plain_words(report))


def simulated(world: FamilyWorld, priority: int = 0) -> Outcome:
    """Return what would become of one more job like those of the world."""
    scheduler, variants = world.services["scheduler"], world.services["variants"]
    like = next(w.record for w in scheduler.state.world.workloads.values() if w.record.parent is None)
    record: WorkloadRecord = msgspec.structs.replace(
        like,
        name="job-new",
        uid=f"{like.uid[:-1]}z",
        created_at=world.now,
        job=None,
        priority=priority,
        labels={},
    )
    assert policy_for(scheduler.state, record) is not None
    before = scheduler.decider.dump(scheduler.state), variants.decider.dump(variants.state)
    found = Race(scheduler.state, variants.state, scheduler.upto, world.now).run(record)
    assert before == (scheduler.decider.dump(scheduler.state), variants.decider.dump(variants.state))
    return found


def explained(world: FamilyWorld, name: str) -> tuple[Report, str]:
    """Explain it with all that the command knows, executors too."""
    source = ListSource(world.log)
    fold = scheduler_at(source, source.end)
    families, executors = variants_at(source, source.end).state, Executors(source, source.end)
    others = Others(families=families, executors=executors)
    report = explain(fold.state, name, source.end, fold.at, others=others)
    return report, "\n".join(plain_words(report))


# why


def test_variants_that_wait_for_checks_are_not_said_to_give_up() -> None:
    """What admits a variant admits its parent, so the parent says what its variants say."""
    world = cell(cluster_queue({"res": 1, "od": 1}, **checked("res", "od")), CHECK)
    world.submit("a").settle_all()
    report, text = told(world, "a")
    assert (report.phase, report.rule) == ("QuotaReserved", "UnsatisfiedAdmissionChecks")
    assert "give its quota up" not in text
    assert "res, od have quota" in report.message
    assert [remedy.kind for remedy in report.remedies] == ["check", "check"]
    assert report.remedies[0].text.endswith("(as variant res)")
    world.checks_say(world.variants("a")["res"].key, "Ready").settle_all()
    assert world.flavor_of("a") == "res"


def test_a_variant_that_waits_for_quota_may_be_the_one_beside_another_at_its_checks() -> None:
    """The job says what admits any of its variants: what happens by itself comes before an approval."""
    retains = {"migration": {"mode": "RetainFirstAdmission"}}
    world = cell(cluster_queue({"res": 1, "od": 1}, retains, **checked("res")), CHECK)
    world.message("presence.agent.x", "Seen", {})
    world.submit("first").settle_all()
    assert world.flavor_of("first") == "od"
    world.submit("a").settle_all()
    world.message("job.default.first", "JobDeleted", {}).settle()  # told to stop, and does not
    report, text = explained(world, "a")
    assert report.phase == "QuotaReserved"
    kinds = {remedy.kind for remedy in report.remedies}
    assert report.message.startswith(
        "Of its variants, res has quota, od waits for it; whichever is admitted first is the one. res: It has"
    )
    assert report.remedies[0].kind == "stop", text
    assert report.remedies[0].text.endswith("must stop first (as variant od)")
    assert "check" in kinds
    world.settle_all()
    assert world.flavor_of("a") == "od"


def test_nobody_is_told_to_do_what_only_the_system_does() -> None:
    """A variant's flavors, its gate and the end of another variant are nobody's to change."""
    world = cell(cluster_queue({"res": 1, "od": 1, "spot": 1}, preemption=PREEMPTS), *CLASSES)
    for name in ("a", "b", "c"):
        world.submit(name, priority_class="low").settle_all()
    world.submit("d", priority_class="low").settle_all()
    world.submit("e", priority_class="high").settle()  # the victim is told to stop, and does not
    for name in ("d", "e"):
        report, text = told(world, name)
        assert report.phase == "Pending"
        assert "allowedResourceFlavors" not in text
        assert "WorkloadAllowedResourceFlavorAnnotation" not in text
        kinds = {remedy.kind for variant in report.variants for remedy in variant.remedies}
        assert "preemptionGates" not in kinds
        for variant in report.variants:
            for remedy in variant.remedies:
                if remedy.kind == "finish":
                    assert "-variant-" not in remedy.text


def test_the_least_change_of_all_variants_comes_first() -> None:
    world = cell(cluster_queue({"res": 1, "od": 3}))
    world.submit("a", cpu=5).settle_all()
    report, _ = told(world, "a")
    assert [remedy.smallest for remedy in report.remedies] == [True, False]
    assert [remedy.text for remedy in report.remedies] == [
        "2 more cpu of od in the nominal quota of main (as variant od)",
        "4 more cpu of res in the nominal quota of main (as variant res)",
    ]


def test_a_variant_that_takes_over_says_for_whom_it_waits() -> None:
    """CA10: with its quota beside the sibling's, it waits for that one's job to stop, for no check."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    world.submit("a")
    world.submit("b").settle_all()
    assert world.flavor_of("b") == "od"
    world.report("a", "JobFinished", success=True).settle()  # told to stop, and does not
    report, _ = told(world, "b")
    res = report.variants[0]
    assert (res.phase, res.rule) == ("QuotaReserved", "WaitingForPreemptedWorkloads")
    assert "takes over when default/job-b-variant-od-" in res.message
    assert [remedy.kind for remedy in res.remedies] == ["stop"]


# simulate


def test_a_job_that_would_race_is_simulated_with_its_variants() -> None:
    """On the first flavor with room; then by preemption; or it waits, and each variant says why."""
    world = cell(cluster_queue({"res": 1, "od": 1}, preemption=PREEMPTS), *CLASSES)
    world.submit("a", priority_class="low").settle_all()
    found = simulated(world)
    assert (found.admitted, found.variant, found.preempted) == (True, "od", [])
    assert found.waiting["res"].startswith("WaitingForQuota: ")
    world.submit("b", priority_class="low").settle_all()
    found = simulated(world)
    assert (found.reserved, found.admitted) == (None, False)
    assert list(found.waiting) == ["res", "od"]
    assert (found.reason, found.message[:8]) == ("WaitingForQuota", "couldn't")
    found = simulated(world, priority=1000)
    assert (found.admitted, found.variant) == (True, "res")
    (preempted,) = found.preempted
    assert preempted.workload == world.variants("a")["res"].key


def test_a_race_of_checks_is_simulated() -> None:
    world = cell(cluster_queue({"res": 1, "od": 1}, **checked("res", "od")), CHECK)
    world.submit("a").settle_all()
    world.report("a", "JobFinished", success=True)
    world.message("job.default.a", "JobDeleted", {})
    world.submit("b", cpu=2).settle_all()
    found = simulated(world)
    assert not found.admitted
    assert found.reserved is None  # as wide as b, which fits nowhere
    world.apply(cluster_queue({"res": 2, "od": 4}, **checked("res", "od"))).settle_all()
    found = simulated(world)
    assert not found.admitted
    assert (found.variant, found.waiting["res"].partition(":")[0]) == ("od", "WaitingForQuota")


@pytest.mark.parametrize("stopped", ["ClusterQueue", "LocalQueue"])
def test_variants_for_a_queue_that_is_stopped_are_suspended(stopped: str) -> None:
    """As those that are there are said to be."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    world.submit("a").settle_all()
    if stopped == "ClusterQueue":
        world.apply(cluster_queue({"res": 1, "od": 1}, stopPolicy="Hold")).settle()
    else:
        held = local_queue()
        held["spec"]["stopPolicy"] = "Hold"
        world.apply(held).settle()
    found = simulated(world)
    assert found.reason == "Suspended"
    assert {why.partition(": ")[0] for why in found.waiting.values()} == {"Suspended"}
    assert all(f"{stopped} main is inactive: " in why for why in found.waiting.values())


def test_a_create_delay_is_told() -> None:
    """Time stands still: what is let in later says so."""
    policy = {
        "migration": {"mode": "TryPreferredFlavors"},
        "explicitVariants": [
            {"name": "best", "allowedResourceFlavors": ["res"]},
            {"name": "rest", "allowedResourceFlavors": ["od"], "createDelaySeconds": 60},
        ],
    }
    world = cell(cluster_queue({"res": 1, "od": 1}, policy))
    world.submit("a").settle_all()
    found = simulated(world)
    assert found.reserved is None
    assert found.waiting["rest"] == "createDelaySeconds: 60"
