"""What people see of jobs that race with variants: in lists, objects and descriptions (CA7, CA8, CA10)."""

from typing import Any

from sluice.cli.commands.objects.describe_jobs import _family, _migrations, workload_lines
from sluice.cli.commands.objects.describe_queues import _waiting, cluster_queue_lines, local_queue_lines
from sluice.cli.kit.columns import job_position, position, variant_gate, waited, workload_status
from sluice.core.views import notices
from sluice.core.views.present.phase import workload_phase
from sluice.core.views.present.times import timestamp
from sluice.core.views.totals import MIGRATED
from sluice.events.base import JobKey, WorkloadKey
from sluice.events.scheduler import ClusterQueueStatusChanged, Evicted
from sluice.events.variants import ParentEvicted
from sluice.readmodel.objects import keys, render
from sluice.readmodel.world import World
from sluice.replay.explain.why import explain
from tests.support.family_world import FamilyWorld, cell, cluster_queue, local_queue
from tests.support.memory_log import START
from tests.support.objects import kueue_object, priority_class

CHECK = kueue_object("AdmissionCheck", "slow", {"controllerName": "sluice.dev/external"})
CHECKED: dict[str, Any] = {
    "admissionChecksStrategy": {"admissionChecks": [{"name": "slow", "onFlavors": ["od"]}]}
}


class _Quiet:
    """An api that knows of nothing else, but maybe of settings."""

    def __init__(self, settings: Any = None) -> None:
        self.settings = settings

    async def get(self, _kind: str, _name: str) -> Any:
        return self.settings

    async def history(self, _request: Any) -> Any:
        return _Nothing

    async def list(self, _request: Any) -> Any:
        return _Nothing


class _Nothing:
    items: tuple[()] = ()


def shown(world: FamilyWorld) -> World:
    api = World()
    api.fold(world.log)
    return api


def parent_of(api: World) -> dict[str, Any]:
    (key,) = api.view.parents
    return plain(api, "Workload", key)


def plain(api: World, kind: str, key: str) -> dict[str, Any]:
    found = render(api, kind, key)
    assert found is not None
    return found


def said(obj: dict[str, Any], kind: str) -> tuple[str, str, str]:
    (found,) = (c for c in obj["status"]["conditions"] if c["type"] == kind)
    return found["status"], found["reason"], found["message"]


def test_variants_name_their_owner_and_say_whether_they_are_active() -> None:
    """CA4: the owner reference has the parent's uid. CA8: `active` is there also when it is true."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    world.submit("a").settle_all()
    api = shown(world)
    parent = parent_of(api)
    for key in keys(api, "Variant"):
        (owner,) = plain(api, "Variant", key)["metadata"]["ownerReferences"]
        assert owner["uid"] == parent["metadata"]["uid"]
        assert (owner["controller"], owner["blockOwnerDeletion"]) == (True, True)
    assert [one["active"] for one in parent["status"]["variants"]] == [True, False]
    variants = [plain(api, "Variant", key) for key in keys(api, "Variant")]
    assert [workload_status(variant) for variant in variants] == ["Admitted", "Inactive"]
    _, reason, message = said(variants[1], "QuotaReserved")
    assert reason == "Deactivated"
    assert message.startswith("Variant Workload deactivated due to being lower priority than admitted")


def test_a_parent_whose_variant_waits_for_checks_says_so() -> None:
    """G6: it is the variant's checks that keep the parent from being admitted, wherever one looks."""
    world = cell(cluster_queue({"res": 0, "od": 1}, **CHECKED), CHECK)
    world.submit("a").settle_all()
    api = shown(world)
    parent = parent_of(api)
    text = "od: The workload has not all checks ready: slow (Pending)"
    assert said(parent, "Admitted") == ("False", "UnsatisfiedAdmissionChecks", text)
    assert said(parent, "QuotaReserved") == ("False", "UnsatisfiedAdmissionChecks", text)
    status = plain(api, "Job", "default/a")["status"]
    assert (status["phase"], status["reason"]) == ("QuotaReserved", "UnsatisfiedAdmissionChecks")
    assert (workload_status(parent), position(parent)) == ("QuotaReserved", ""), "get wl, describe wl"
    (seen,) = (w for w in api.view.workloads.values() if w.parent)
    assert workload_phase(seen) == "QuotaReserved", "replay state"
    assert status["message"] == text
    tree = "\n".join(_family(parent))
    assert "[od]  QuotaReserved  The workload has not all checks ready" in tree
    inactive = ClusterQueueStatusChanged(
        cause=0, cluster_queue="main", active=False, reason="AdmissionCheckInactive", message="gone"
    )
    api.view.apply(inactive, api.seq + 1, world.now)
    assert said(parent_of(api), "QuotaReserved")[1] == "UnsatisfiedAdmissionChecks", "its quota stays its own"
    world.checks_say(next(v.key for v in world.variants("a").values() if v.name == "od"), "Ready")
    world.settle_all()
    assert plain(shown(world), "Job", "default/a")["status"]["phase"] == "Admitted"


def test_a_variant_whose_check_was_rejected_says_so() -> None:
    world = cell(cluster_queue({"res": 0, "od": 1}, **CHECKED), CHECK)
    world.submit("a").settle_all()
    world.checks_say(next(v.key for v in world.variants("a").values() if v.name == "od"), "Rejected")
    world.settle_all()
    (line,) = (line for line in _family(parent_of(shown(world))) if "[od]" in line)
    assert "Inactive" in line
    assert "Rejected" in line or "rejected" in line


def test_a_variant_that_is_switched_off_for_good_is_an_event_of_its_job() -> None:
    """Whoever has switched it off: all that becomes of variants is told at the job."""
    world = cell(cluster_queue({"res": 0, "od": 1}, **CHECKED), CHECK)
    world.submit("a").settle_all()
    od = world.variants("a")["od"].key
    world.checks_say(od, "Rejected").settle_all()
    api = shown(world)
    history = api.view.workloads[WorkloadKey(f"default/{parent_of(api)['metadata']['name']}")]
    (event,) = [n for n in notices(history) if n.reason == "DeactivatedVariant"]
    assert event.type == "Warning"
    assert event.message.startswith(f'Variant Workload "{od}" deactivated due to ')
    assert "slow" in event.message
    assert "AdmissionCheckRejected" in [n.reason for n in notices(api.view.workloads[od])]


def test_a_variant_that_takes_over_waits_for_its_sibling_and_for_no_check() -> None:
    """CA10: it has its quota beside the one that runs."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    world.submit("first")
    world.submit("a").settle_all()
    world.report("first", "JobFinished", success=True).settle()  # told to stop, and does not
    api = shown(world)
    res = next(v for v in world.variants("a").values() if v.name == "res")
    status, reason, message = said(plain(api, "Variant", res.key), "Admitted")
    assert (status, reason) == ("False", "WaitingForPreemptedWorkloads")
    assert message == "Pending the migration of 1 workload(s)"
    assert plain(api, "Job", "default/a")["status"]["phase"] == "Stopping"


def test_a_parent_that_waits_does_not_tell_of_flavors_that_variants_were_not_made_for() -> None:
    world = cell(cluster_queue({"res": 0, "od": 0}))
    world.submit("a").settle_all()
    status, reason, message = said(parent_of(shown(world)), "QuotaReserved")
    assert (status, reason) == ("False", "ExceedsMaxQuota")
    assert message.startswith("res: ")
    assert "; od: " in message
    assert "WorkloadAllowedResourceFlavorAnnotation" not in message


def test_a_move_does_not_reset_how_long_a_job_has_waited() -> None:
    """Waiting is the time that the job was not admitted: before its start, and while it moved."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    world.submit("first").settle_all()
    world.submit("a").settle_all(5)
    before = plain(shown(world), "Job", "default/a")["status"]["waitedSeconds"]
    world.settle_all(100)
    world.report("first", "JobFinished", success=True).settle_all()
    assert world.flavor_of("a") == "res"
    api = shown(world)
    status = plain(api, "Job", "default/a")["status"]
    assert status["attempts"] == 2
    assert before <= status["waitedSeconds"] < before + 1
    assert plain(api, "Workload", f"default/{status['workload']}")["status"]["waitedSeconds"] < before + 1


def test_the_wait_before_the_first_start_counts_after_moves_too() -> None:
    """In the job, its parent workload and the column WAITED; not what it ran, stopping included."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    world.submit("first").settle_all()
    world.submit("second").settle_all()
    world.submit("a").settle_all(50)
    world.report("second", "JobFinished", success=True).settle_all()
    world.settle_all(100)
    world.report("first", "JobFinished", success=True).settle_all()
    api = shown(world)
    (job,) = (plain(api, "Job", key) for key in keys(api, "Job") if key == "default/a")
    assert (job["status"]["attempts"], world.flavor_of("a")) == (2, "res")
    parent = plain(api, "Workload", f"default/{job['status']['workload']}")
    for obj in (job, parent):
        assert 50 <= obj["status"]["waitedSeconds"] < 51
    assert waited(parent).startswith("50")


def test_a_race_that_is_over_is_not_listed() -> None:
    """Its variants are gone from lists and for watchers, and can be had by name while the parent is kept."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    world.submit("a").settle_all()
    api = shown(world)
    variants = list(keys(api, "Variant"))
    assert len(variants) == 2
    seen = api.seq
    world.report("a", "JobFinished", success=True).settle_all()
    api = shown(world)
    assert list(keys(api, "Variant")) == []
    assert {gone.key for gone in api.changes.gone_since("Variant", seen)} == set(variants)
    assert [workload_status(plain(api, "Variant", key)) for key in variants] == ["Finished", "Finished"]
    seen = api.seq
    world.message("job.default.a", "JobDeleted", {}).settle_all()
    api = shown(world)
    assert set(variants) <= {gone.key for gone in api.changes.gone_since("Workload", seen)}


def test_a_variant_that_is_switched_off_is_not_blocked() -> None:
    """Its gate matters when it races again, and is looked at anew then (CA11)."""
    high = priority_class("high", 100)
    preempts = {"withinClusterQueue": "LowerPriority"}
    world = cell(cluster_queue({"res": 1, "od": 1}, preemption=preempts), high)
    for name in ("a", "b"):
        world.submit(name)
    world.settle_all()
    world.submit("c", priority_class="high").settle_all()
    api = shown(world)
    variants = [plain(api, "Variant", v.key) for v in world.variants("c").values()]
    assert [workload_status(v) for v in variants] == ["Admitted", "Inactive"]
    assert [variant_gate(v) for v in variants] == ["Closed", "Closed"]


def test_who_has_finished_was_not_evicted() -> None:
    """An eviction that was decided before the end was known is history, and no condition."""
    world = cell(cluster_queue({"res": 1}))
    world.submit("a").settle_all()
    world.report("a", "JobFinished", success=True).settle_all()
    api = shown(world)
    (parent,), (variant,) = api.view.parents, api.view.workloads[next(iter(api.view.parents))].variants
    late = (
        Evicted(cause=0, workload=variant, reason="FlavorMigration", message="late"),
        ParentEvicted(cause=0, workload=parent, variant=variant, reason="VariantEvicted", message="late"),
    )
    for event in late:
        api.view.apply(event, api.seq + 1, world.now)
    for key in (parent, variant):
        found = plain(api, "Workload", key)
        assert [c["type"] for c in found["status"]["conditions"] if c["type"] in ("Evicted", "Finished")] == [
            "Finished"
        ]
        assert "schedulingStats" not in found["status"]


async def test_describe_tells_of_policies_and_variants() -> None:
    """A queue's policy, and what a variant is for and whether it may preempt, are described."""
    policy = {
        "migration": {
            "mode": "TryPreferredFlavors",
            "constraints": {"lastAcceptableVariantName": "best"},
        },
        "explicitVariants": [
            {"name": "best", "allowedResourceFlavors": ["res"], "deleteDelaySeconds": 86400},
            {"name": "rest", "allowedResourceFlavors": ["res", "od"], "createDelaySeconds": 7200},
        ],
    }
    world = cell(cluster_queue({"res": 1, "od": 1}, policy))
    world.submit("a").settle_all()
    api = shown(world)
    lines = await cluster_queue_lines(_Quiet(), plain(api, "ClusterQueue", "main"))  # type: ignore[arg-type]
    text = "\n".join(lines)
    assert "TryPreferredFlavors: jobs move up, to best or better only" in text
    off = {"spec": {"featureGates": {"ConcurrentAdmission": False}}}
    gated = await cluster_queue_lines(_Quiet(off), plain(api, "ClusterQueue", "main"))  # type: ignore[arg-type]
    assert "none: the ConcurrentAdmission gate is off" in "\n".join(gated)
    assert not any("best" in line for line in gated)
    assert "  best  [res]  gives up 24h after another one was admitted" in text
    assert "  rest  [res, od]  races 120m after the job's creation" in text
    (best, rest) = keys(api, "Variant")
    later = ("False", "Deactivated", "Variant Workload is activated after createDelaySeconds: 7200")
    assert said(plain(api, "Variant", rest), "QuotaReserved") != later, "another one is admitted"
    world.submit("b", cpu=2).settle_all()
    api = shown(world)
    assert said(plain(api, "Variant", list(keys(api, "Variant"))[-1]), "QuotaReserved") == later
    lines = await workload_lines(_Quiet(), plain(api, "Variant", best))  # type: ignore[arg-type]
    found = {line.partition(":")[0]: line.partition(":")[2].strip() for line in lines}
    assert found["Owner"].startswith("Workload/job-a-")
    assert found["Variant"] == "best, for res"
    assert found["Gate"].startswith("Closed, since ")
    assert "Events" in found


def test_a_variant_is_as_old_as_it_is_itself() -> None:
    """It queues by its parent's time (CA6), but has not waited since then, nor been anything since then."""
    plain_queue, racing = cluster_queue({"res": 0, "od": 0}), cluster_queue({"res": 0, "od": 0})
    del plain_queue["spec"]["concurrentAdmissionPolicy"]
    world = cell(plain_queue)
    world.submit("a").settle_all()
    world.settle_all(100)
    world.apply(racing).settle_all()
    api = shown(world)
    made = timestamp(world.now)
    variants = [plain(api, "Variant", key) for key in keys(api, "Variant")]
    assert len(variants) == 2
    for variant in variants:
        assert variant["metadata"]["creationTimestamp"] == made
        times = [c["lastTransitionTime"] for c in variant["status"]["conditions"]]
        assert times == [made] * len(times)
        (gate,) = variant["status"]["preemptionGates"]
        assert gate["lastTransitionTime"] == made
    assert parent_of(api)["metadata"]["creationTimestamp"] == timestamp(START)
    world.submit("b").settle_all()
    places = [
        v["status"]["queuePosition"]
        for v in (plain(shown(world), "Variant", k) for k in keys(api, "Variant"))
    ]
    assert places == [1, 1], "before b, although made after its parent"


def test_a_place_in_the_queue_is_a_jobs() -> None:
    """A family has one, however many variants queue for it: jobs are numbered as many as wait."""
    world = cell(cluster_queue({"res": 1, "od": 1, "spot": 1}))
    for name in ("r1", "r2", "r3", "f1", "f2"):
        world.submit(name).settle_all()
    api = shown(world)
    places = {name: job_position(plain(api, "Job", f"default/{name}")) for name in ("f1", "f2")}
    assert places == {"f1": "1", "f2": "2"}
    waiting = [w for w in api.view.workloads.values() if w.record.created_at >= _created(api, "f2")]
    assert len(waiting) == 4
    assert {position(plain(api, "Workload", w.key)) for w in waiting} == {"2"}, "its parent, and its variants"
    report = explain(world.services["scheduler"].state, "f2", len(world.log), world.now, help_=False)
    for variant in report.variants:
        assert (variant.position, variant.queue_size, len(variant.ahead)) == (2, 2, 1)


def _created(api: World, name: str) -> int:
    return max(w.record.created_at for w in api.view.jobs[JobKey(f"default/{name}")].workloads.values())


def test_migrations_are_moves_to_a_better_variant() -> None:
    """A job that was switched off, or preempted, has not moved: it has stopped."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    world.submit("first")
    world.submit("a").settle_all()
    assert world.flavor_of("a") == "od"
    world.report("first", "JobFinished", success=True).settle_all()
    assert world.flavor_of("a") == "res"
    world.message("job.default.a", "JobDeactivated", {}).settle_all()
    status = parent_of_job(world, "a")["status"]
    moves = [(one["reason"], one["from"], one["to"]) for one in status["migrations"]]
    assert moves == [("FlavorMigration", "od", "res")]
    stops = [(one["reason"], one["from"], one.get("to")) for one in status["stops"]]
    assert stops == [("Deactivated", "res", None)]
    lines = _migrations({"status": status})
    assert [line for line in lines if not line.startswith(" ")] == ["Migrations:", "Stops:"]
    assert lines[1].endswith("lost")
    assert lines[3].endswith("res  Deactivated")


def moving_when_the_queue_is_edited() -> FamilyWorld:
    """Return a cell in which `a` leaves od for res, and its queue is edited so that od comes first."""
    world = cell(cluster_queue({"res": 1, "od": 1, "spot": 1}))
    for name in ("first", "a"):
        world.submit(name).settle_all()
    world.report("first", "JobFinished", success=True).settle()
    world.apply(cluster_queue({"od": 1, "res": 1, "spot": 1})).settle()
    return world


def test_a_variant_that_has_to_stop_says_why_and_not_that_it_has_quota() -> None:
    """And those that are switched off say what keeps them off, whatever has been edited since."""
    world = moving_when_the_queue_is_edited()
    lines = {line.split()[1].rpartition("-variant-")[2].split("-")[0]: line for line in tree_of(world, "a")}
    assert "Evicted  being stopped: Evicted to accommodate" in lines["od"]
    assert "Quota reserved" not in lines["od"]
    assert "Inactive  Variant Workload deactivated due to od, which ran, not having" in lines["spot"]
    world.settle_all()
    after = [line for line in tree_of(world, "a") if "Inactive" in line]
    assert after
    assert all("Variant Workload deactivated due to" in line for line in after)


def test_nobody_has_moved_who_goes_on_where_it_was() -> None:
    """What it was to move to was given up before it ran: that was a stop."""
    world = moving_when_the_queue_is_edited()
    world.settle_all()
    assert world.flavor_of("a") == "od"
    status = parent_of_job(world, "a")["status"]
    assert "migrations" not in status
    stops = [(one["reason"], one["from"], one.get("to")) for one in status["stops"]]
    assert stops == [("FlavorMigration", "od", "od")]
    (_, line) = _migrations({"status": status})
    assert "  od -> od  gave up its FlavorMigration, " in line
    totals = shown(world).view.totals
    assert not [key for key in totals if key[0] == MIGRATED]


def test_nobody_has_moved_who_ended_first() -> None:
    """A job that was told to stop for a better flavor, and finished instead, has no move without an end."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    for name in ("first", "a"):
        world.submit(name).settle_all()
    world.report("first", "JobFinished", success=True).settle()
    assert parent_of_job(world, "a")["status"]["migrations"]
    world.report("a", "JobFinished", success=True).settle_all()
    status = parent_of_job(world, "a")["status"]
    assert "migrations" not in status
    assert "stops" not in status


async def test_variants_are_told_apart_where_a_queue_says_why_they_wait() -> None:
    """Their place is one; what they lack is not."""
    world = cell(cluster_queue({"res": 0, "od": 1}))
    world.submit("a", cpu=2).settle_all()
    api = shown(world)

    class Waiting(_Quiet):
        async def list(self, _request: Any) -> Any:
            found = [key for key in keys(api, "Workload") if "-variant-" in key]
            return type("Found", (), {"items": [plain(api, "Workload", key) for key in found]})

    queue = plain(api, "ClusterQueue", "main")
    lines = await _waiting(Waiting(), queue)  # type: ignore[arg-type]
    why = lines[lines.index("Why:") + 1 :]
    assert {line.split()[0] for line in why} == {f"default/{parent_of(api)['metadata']['name']}"}
    assert all(line.split()[1].strip("():") in line.partition(": ")[2] for line in why)


async def test_a_local_queue_that_leads_elsewhere_counts_and_charges_the_same_workloads() -> None:
    """Who runs on with quota of the old cluster queue is counted, what it uses, too, and where it is."""
    world = cell(cluster_queue({"res": 2}, {}), cluster_queue({"res": 2}, {}, name="other"))
    world.submit("a").settle_all()
    world.delete("LocalQueue", "main", "default").settle()
    world.apply(local_queue("main", "other")).settle_all()
    world.submit("b").settle_all()
    local = plain(shown(world), "LocalQueue", "default/main")
    lines = await local_queue_lines(_Quiet(), local)  # type: ignore[arg-type]
    text = "\n".join(" ".join(line.split()) for line in lines)
    assert "Workloads: 0 pending, 2 with quota, 2 admitted" in text
    assert "Uses res: cpu 2\n" in text
    assert "Elsewhere: 1 of them with quota of ClusterQueue main, from before" in text


def tree_of(world: FamilyWorld, name: str) -> list[str]:
    """Return what `describe job` says of the variants."""
    return [line for line in _family(parent_of_job(world, name)) if "──" in line]


def parent_of_job(world: FamilyWorld, name: str) -> dict[str, Any]:
    api = shown(world)
    (key,) = api.view.jobs[JobKey(f"default/{name}")].workloads
    return plain(api, "Workload", key)


def test_a_gate_that_is_closed_again_blocks() -> None:
    """CA11: its turn is over, so it may not preempt, as its gate says; its sibling may."""
    levels = [priority_class("low", 1), priority_class("high", 2)]
    world = cell(cluster_queue({"a": 1, "b": 1}, preemption={"withinClusterQueue": "LowerPriority"}), *levels)
    for name in ("r", "s"):
        world.submit(name, priority_class="low").settle_all()
    world.submit("x", priority_class="high").settle()
    world.run_until(400)
    gates = {}
    for name, variant in world.variants("x").items():
        found = render(shown(world), "Workload", variant.key)
        assert found is not None
        (position,) = (gate["position"] for gate in found["status"]["preemptionGates"])
        gates[name] = (position, said(found, "BlockedOnPreemptionGates")[:2])
    assert gates == {
        "a": ("Closed", ("True", "PreemptionGated")),
        "b": ("Open", ("False", "PreemptionUngated")),
    }
