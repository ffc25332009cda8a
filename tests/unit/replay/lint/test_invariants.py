"""Each invariant has a log that breaks it; sound logs break none."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from sluice.events.base import Event
from sluice.events.checks import (
    ChecksPending,
    ChecksReady,
    ChecksRequested,
    ChecksRetry,
    CheckStateChanged,
    PreemptionsAllowed,
    VerdictIgnored,
)
from sluice.events.codec import decode_commit, encode_commit
from sluice.events.commit import Step
from sluice.events.config import ObjectApplied
from sluice.events.scheduler import (
    Admitted,
    Evicted,
    PendingPreemptionsIssued,
    PendingReasonChanged,
    Preempted,
    QuotaReleased,
    QuotaReserved,
    RequeueBackoffStarted,
    WorkloadSliceReplaced,
    WorkloadsParked,
)
from sluice.events.slices import (
    CompletionsUpdated,
    JobClaimed,
    JobResumed,
    ReclaimablePodsUpdated,
    Rejected,
    WorkloadCreated,
    WorkloadStopped,
    WorkloadUpdated,
)
from sluice.events.variants import (
    ParentAdmitted,
    ParentMarked,
    ParentReleased,
    ParentUnmarked,
    PreemptionGateOpened,
    VariantCreated,
    VariantDeactivated,
    VariantStopped,
)
from sluice.log.contract import Entry
from sluice.replay.lint.invariants import broken
from sluice.replay.lint.lint import INVARIANTS, first_violation, lint
from sluice.replay.source.source import ListSource
from tests.support.checked_cell import checked_cell
from tests.support.elastic_cell import Cell
from tests.support.family_world import SECOND, cell, cluster_queue, configuration, flavor, job, local_queue
from tests.support.log_check import wrong_with
from tests.support.objects import applied, priority_class
from tests.unit.replay.broken_decisions import BROKEN_DECISIONS, LATE_DECISIONS, promised
from tests.unit.replay.damage import (
    Damaged,
    altered,
    edited,
    events_of,
    first,
    followed,
    lacking,
    replaced,
    without,
)

CLASSES = [
    priority_class(name, value)
    for name, value in (("low", 1), ("high", 100))
]  # fmt: skip


def families() -> list[Entry]:
    """Two families race for two flavors; the later one preempts behind a gate that is opened for it."""
    world = cell(
        cluster_queue({"res": 1, "od": 1}, preemption={"withinClusterQueue": "LowerPriority"}), *CLASSES
    )
    for name in ("a", "b"):
        world.submit(name, priority_class="low").settle_all()
    world.submit("c", priority_class="high").settle_all()
    world.message("job.default.bad", "JobSubmitted", {"kind": "Nonsense"}).settle_all()
    world.report("c", "JobFinished", success=True).settle_all()
    return world.log


def elastic() -> list[Entry]:
    """A job grows by a second slice."""
    world = Cell()
    world.queue("left", 8)
    world.submit("a", "left", 2).settle()
    world.scale("a", 5).settle()
    world.submit("b", "left", 1).settle()
    return world.log


def begun_again() -> list[Entry]:
    """Of a job that was partly done, the next one of its name grows while its checks are awaited."""
    world = Cell()
    world.configure("AdmissionCheck", "gpu", {"controllerName": "x"})
    world.queue("left", 8, admissionChecksStrategy={"admissionChecks": [{"name": "gpu"}]})
    world.submit("a", "left", 1, completions=5).settle()
    assert world.checks_say(ready=True)
    world.settle()
    world.do("a", 5, 3)
    world.message("a", "JobFinished", {"attempt": 1}).settle()
    world.submit("a", "left", 1, completions=5).settle()
    world.scale("a", 4).settle()
    return world.log


def claimed() -> list[Entry]:
    """An executor has taken an attempt, another one the next; both have announced it twice."""
    world = Cell()
    world.queue("left", 8)
    world.submit("a", "left", 1).settle()
    for attempt, executor in ((1, "x"), (2, "y")):
        for _ in range(2):
            world.message("a", "JobPodsReady", {"attempt": attempt, "executor": executor, "ready": False})
            world.settle()
        world.message("a", "JobStopped", {"attempt": attempt, "executor": executor}).settle()
    return world.log


def claimed_twice(entries: list[Entry]) -> Damaged:
    """Another executor's claim takes the attempt over."""
    seq, event = first(entries, JobClaimed)
    return followed(entries, event, msgspec.structs.replace(event, executor="z")), seq


def twice_the_quota(entries: list[Entry]) -> Damaged:
    seq, event = first(entries, QuotaReserved)
    sets = [
        msgspec.structs.replace(ps, usage={r: a * 9 for r, a in ps.usage.items()}) for ps in event.pod_sets
    ]
    larger = msgspec.structs.replace(event, pod_sets=sets)
    return replaced(entries, event, larger), seq


def released_twice(entries: list[Entry]) -> Damaged:
    """The victim's quota is given back a second time."""
    seq, event = first(entries, QuotaReleased)
    return followed(entries, event, event), seq


def admitted_without_quota(entries: list[Entry]) -> Damaged:
    _, event = first(entries, QuotaReserved)
    seq, _ = first(entries, Admitted)
    return without(entries, event), seq


def two_variants(entries: list[Entry]) -> Damaged:
    """A sibling is admitted beside the one that runs."""
    seq, admitted = first(entries, Admitted)
    _, reserved = first(entries, QuotaReserved)
    marks = [e for _, e in events_of(entries) if type(e).__name__ == "VariantCreated"]
    sibling = next(
        e.workload.key  # type: ignore[attr-defined]
        for e in marks
        if e.workload.key != admitted.workload  # type: ignore[attr-defined]
    )
    more = (
        msgspec.structs.replace(reserved, workload=sibling),
        msgspec.structs.replace(admitted, workload=sibling),
    )
    return followed(entries, admitted, *more), seq


def two_gates(entries: list[Entry]) -> Damaged:
    seq, opened = first(entries, PreemptionGateOpened)
    siblings = [
        e.workload.key  # type: ignore[attr-defined]
        for _, e in events_of(entries)
        if type(e).__name__ == "VariantCreated" and e.workload.parent == opened.parent  # type: ignore[attr-defined]
    ]
    other = next(key for key in siblings if key != opened.workload)
    return followed(entries, opened, msgspec.structs.replace(opened, workload=other)), seq


def closed_gate(entries: list[Entry]) -> Damaged:
    """Who preempts was never let."""
    _, opened = first(entries, PreemptionGateOpened)
    seq, _ = first(entries, Preempted)
    return without(entries, opened), seq


def three_slices(entries: list[Entry]) -> Damaged:
    """The old slice stays when the new one is admitted."""
    return lacking(entries, WorkloadSliceReplaced)


def no_growth(entries: list[Entry]) -> Damaged:
    """The new slice asks for no more than the old one has."""
    seq, _ = first(entries, WorkloadSliceReplaced)

    def change(event: Event) -> Sequence[Event]:
        if not isinstance(event, WorkloadCreated) or event.workload.replaces is None:
            return (event,)
        fewer = [msgspec.structs.replace(pods, count=2) for pods in event.workload.pod_sets]
        return (WorkloadCreated(cause=0, workload=msgspec.structs.replace(event.workload, pod_sets=fewer)),)

    return altered(entries, change), seq


def shrunk() -> list[Entry]:
    """Of five pods three have ended when the job is to have two; another one would need the rest."""
    world = Cell()
    world.queue("left", 6)
    world.submit("a", "left", 5).settle()
    world.message("a", "JobPodsReclaimable", {"pods": {"main": 3}, "counts": {"main": 5}}).settle()
    world.scale("a", 2).settle()
    world.submit("b", "left", 6).settle()
    return world.log


def given_back_twice(entries: list[Entry]) -> Damaged:
    """Nobody says that of the two pods none has ended for sure."""
    return lacking(entries, ReclaimablePodsUpdated, 1)


def given_back_once_more(entries: list[Entry]) -> Damaged:
    """What is said with the new size is what was said of the old one."""
    seq, said = first(entries, ReclaimablePodsUpdated, 1)
    _, old = first(entries, ReclaimablePodsUpdated)
    wrong = msgspec.structs.replace(said, pods=old.pods)
    return replaced(entries, said, wrong), seq


def more_pods(entries: list[Entry]) -> Damaged:
    """Quota that was taken back is run on."""
    resumed = next((seq, e) for seq, e in events_of(entries) if type(e).__name__ == "JobResumed")
    _, reserved = first(entries, QuotaReserved)
    _, admitted = first(entries, Admitted)
    gone = QuotaReleased(cause=0, workload=reserved.workload)
    return followed(entries, admitted, gone), resumed[0]


def no_answer(entries: list[Entry]) -> Damaged:
    _, rejected = first(entries, Rejected)
    return without(entries, rejected), rejected.cause


def cause_in_the_future(entries: list[Entry]) -> Damaged:
    return edited(entries, Admitted, cause=10**6)


def charged_twice(entries: list[Entry]) -> Damaged:
    seq, reserved = first(entries, QuotaReserved)
    return followed(entries, reserved, reserved), seq


def parent_without_variant(entries: list[Entry]) -> Damaged:
    """The variant as which the parent is admitted never was."""
    _, reserved = first(entries, QuotaReserved)
    _, admitted = first(entries, Admitted)
    seq, _ = first(entries, ParentAdmitted)
    return without(without(entries, reserved), admitted), seq


def crashed() -> list[Entry]:
    """An executor crashes under a family."""
    world = cell(cluster_queue({"res": 1, "od": 0}))
    world.submit("a").settle_all()
    world.report("a", "JobStopped").settle_all()
    return world.log


def admitted_before_settled(entries: list[Entry]) -> Damaged:
    """The parent is admitted again in the step that says that its variant has stopped."""
    seq, stopped = first(entries, VariantStopped)
    _, admitted = first(entries, ParentAdmitted)
    return followed(entries, stopped, admitted), seq


def gated() -> list[Entry]:
    """A job runs while the gate is closed; then it is opened."""
    world = cell(
        cluster_queue({"res": 1, "od": 1}), configuration(featureGates={"ConcurrentAdmission": False})
    )
    world.submit("a").settle_all()
    world.apply(configuration(featureGates={"ConcurrentAdmission": True})).settle_all()
    world.apply(configuration(featureGates={"ConcurrentAdmission": False})).settle_all()
    return world.log


def picky() -> list[Entry]:
    """A job restricts itself to one flavor of its queue."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    manifest = job("a")
    manifest["metadata"]["annotations"] = {"kueue.x-k8s.io/workload-allowed-resource-flavors": "od"}
    world.message("job.default.a", "JobSubmitted", manifest).settle_all()
    return world.log


def not_asked(entries: list[Entry]) -> Damaged:
    """Its variant may use the other one."""
    seq, made = first(entries, VariantCreated)
    record = msgspec.structs.replace(made.workload, allowed_flavors=("res", "od"))
    other = msgspec.structs.replace(made, workload=record)
    return replaced(entries, made, other), seq


def migrates() -> list[Entry]:
    """A job moves up to the flavor that another one leaves."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    for name in ("a", "b"):
        world.submit(name).settle_all()
    world.report("a", "JobFinished", success=True).settle_all()
    return world.log


def another_flavor(entries: list[Entry]) -> Damaged:
    """A variant has quota of a flavor that it was not made for, and the gate is off."""
    seq, reserved = first(entries, QuotaReserved)
    pods = [msgspec.structs.replace(pods, flavors={"cpu": "od"}) for pods in reserved.pod_sets]
    other = msgspec.structs.replace(reserved, pod_sets=pods)
    return without_gate(replaced(entries, reserved, other)), seq


def migrates_without_gate(entries: list[Entry]) -> Damaged:
    """There was no concurrent admission when it was told to go."""
    return without_gate(entries), first(entries, Evicted)[0]


def without_gate(entries: list[Entry]) -> list[Entry]:
    """Return the log with the gate off when its first local queue came."""
    off = configuration(featureGates={"ConcurrentAdmission": False})
    queues = (e for _, e in events_of(entries) if isinstance(e, ObjectApplied) and e.kind == "LocalQueue")
    return followed(entries, next(queues), applied(off))


def marked_as_it_runs(entries: list[Entry]) -> Damaged:
    """The controller does not wait until the job has stopped."""
    _, stopped = first(entries, WorkloadStopped)
    return without(entries, stopped), first(entries, ParentMarked)[0]


def given_up_before_its_variants(entries: list[Entry]) -> Damaged:
    """The scheduler gives back what the job had before any variant is there."""
    made = [first(entries, VariantCreated, number)[1] for number in range(2)]
    left = without(without(entries, made[0]), made[1])
    return left, first(entries, QuotaReleased)[0]


def unmarked_as_it_runs(entries: list[Entry]) -> Damaged:
    """The controller does not wait until the job has stopped."""
    _, released = first(entries, ParentReleased)
    seq, _ = first(entries, ParentUnmarked)
    return without(entries, released), seq


def quota_of_both(entries: list[Entry]) -> Damaged:
    """A variant gets quota beside the job's own."""
    seq, _ = first(entries, QuotaReserved, 1)
    return without(entries, first(entries, QuotaReleased)[1]), seq


def variant_without_parent(entries: list[Entry]) -> Damaged:
    """Nobody says that the parent is admitted, though the controller goes on and on."""
    return lacking(entries, ParentAdmitted)


def variant_of_nobody(entries: list[Entry]) -> Damaged:
    """The parent was never there, as far as the controller can know."""
    _, made = first(entries, WorkloadCreated)
    seq, _ = first(entries, VariantCreated)
    return without(entries, made), seq


def all_switched_off(entries: list[Entry]) -> Damaged:
    """The variants of a job that waits are deactivated as soon as they are there."""
    name = first(entries, WorkloadCreated, 1)[1].workload.key
    seq, _ = first(entries, VariantCreated, 2)

    def change(event: Event) -> Sequence[Event]:
        if not isinstance(event, VariantCreated) or event.workload.parent != name:
            return (event,)
        return (event, VariantDeactivated(cause=0, workload=event.workload.key, parent=name))

    return altered(entries, change), seq


def waiting() -> list[Entry]:
    """One job runs, all others wait."""
    world = cell(cluster_queue({"res": 1, "od": 0}))
    for name in ("a", "b", "c", "d", "e"):
        world.submit(name).settle_all()
    return world.log


def moved() -> list[Entry]:
    """A queue is re-pointed under jobs whose variants wait for their time; the controller is behind."""

    def delayed(queue: str, *names: str) -> dict[str, Any]:
        variants = [
            {"name": name, "allowedResourceFlavors": ["res"], "createDelaySeconds": 20} for name in names
        ]
        policy = {"migration": {"mode": "TryPreferredFlavors"}, "explicitVariants": variants}
        return cluster_queue({"res": 1}, policy, name=queue)

    world = cell(delayed("main", "a", "b"), delayed("other", "c", "d"))
    world.submit("j1").settle()
    for name, queue in (("j2", "other"), ("j3", "main"), ("j4", "other")):
        world.apply(local_queue(target=queue))
        world.submit(name)
        world.step("slices")
        world.settle()
    world.run_until(30)
    world.settle_all()
    return world.log


def delayed() -> list[Entry]:
    """A better variant gives up 50 s after another one was admitted."""
    policy = {
        "migration": {"mode": "TryPreferredFlavors"},
        "explicitVariants": [
            {"name": "best", "allowedResourceFlavors": ["res"], "deleteDelaySeconds": 50},
            {"name": "rest", "allowedResourceFlavors": ["od"]},
        ],
    }
    world = cell(cluster_queue({"res": 0, "od": 1}, policy))
    world.submit("a").settle_all()
    world.run_until(60)
    return world.log


def longer_delay(entries: list[Entry]) -> Damaged:
    """It was to have had ten times that."""
    seq, event = first(entries, VariantDeactivated)
    said = event.message.replace("deleteDelaySeconds: 50", "deleteDelaySeconds: 500")
    assert said != event.message
    longer = msgspec.structs.replace(event, message=said)
    return replaced(entries, event, longer), seq


def turned_round(entries: list[Entry]) -> Damaged:
    """The victim has preempted its preemptor before."""
    seq, event = first(entries, Preempted)
    back = msgspec.structs.replace(event, workload=event.preemptor, preemptor=event.workload)
    return followed(entries, event, back), seq


def over_and_over(entries: list[Entry]) -> Damaged:
    seq, event = first(entries, Preempted)
    return followed(entries, event, event, event), seq


def checked() -> list[Entry]:
    """One job is sent back by its check, and passes it the next time, its controller away by then."""
    world = checked_cell("gpu")
    world.submit("w").settle()
    world.say("w", "gpu", "Retry", requeueAfterSeconds=30).settle()
    world.run_until(31)
    world.presence("ctl-gpu", there=False).settle()
    world.run_until(60)
    world.say("w", "gpu", "Ready").settle()
    return world.log


def approval_lost(entries: list[Entry]) -> Damaged:
    """All checks are Ready, and the queue is inactive only because the controller has gone."""
    seq, admitted = first(entries, Admitted)
    key = admitted.workload
    more = (
        QuotaReleased(cause=0, workload=key),
        PendingReasonChanged(cause=0, workloads=(key,), reason="Suspended", message="it is inactive"),
    )
    return replaced(entries, admitted, *more), seq


def too_early(entries: list[Entry]) -> Damaged:
    """The check had asked for a day."""
    _, retry = first(entries, ChecksRetry)
    seq, _ = first(entries, QuotaReserved, 1)
    longer = msgspec.structs.replace(retry, requeue_at=retry.requeue_at + 86_400_000_000)
    return replaced(entries, retry, longer), seq


def too_early_for_its_backoff(entries: list[Entry]) -> Damaged:
    """It was to wait for a day."""
    _, backoff = first(entries, RequeueBackoffStarted)
    seq, _ = first(entries, QuotaReserved, 1)
    longer = msgspec.structs.replace(backoff, requeue_at=backoff.requeue_at + 86_400_000_000)
    return replaced(entries, backoff, longer), seq


def one_of_two_taken() -> list[Entry]:
    """Two checks send the job back; one of them is taken from the queue before the scheduler hears of it."""
    world = checked_cell("gpu", "cpu")
    world.submit("w").settle()
    for name in ("gpu", "cpu"):
        world.say("w", name, "Retry", requeueAfterSeconds=60)
    world.step("checks")
    only = {"admissionChecks": [{"name": "gpu"}]}
    world.apply(cluster_queue({"default": 10}, policy={}, admissionChecksStrategy=only)).step("checks")
    world.settle()
    return world.log


def ready_all_the_same(entries: list[Entry]) -> Damaged:
    """As if the check could take back what it has said."""
    seq, retry = first(entries, ChecksRetry)
    ready = ChecksReady(cause=retry.cause, workload=retry.workload, attempt=retry.attempt)
    return followed(entries, retry, ready), seq


def open_all_the_same(entries: list[Entry]) -> Damaged:
    """The other check still says Retry."""
    seq, asked = first(entries, ChecksRequested, 1)
    pending = ChecksPending(cause=asked.cause, workload=asked.workload, attempt=asked.attempt)
    return followed(entries, asked, pending), seq


def ready_again() -> list[Entry]:
    """What runs is said to be Ready once more, for pods that it has not."""
    world = checked_cell("gpu")
    world.submit("w").settle()
    for updates in ([], [{"name": "mian"}]):
        world.say("w", "gpu", "Ready", podSetUpdates=updates).settle()
    return world.log


def rejected_for_additions(entries: list[Entry]) -> Damaged:
    """As if it had said Rejected."""
    seq, ignored = first(entries, VerdictIgnored)
    rejected = CheckStateChanged(
        cause=ignored.cause,
        workload=ignored.workload,
        check=ignored.check,
        state="Rejected",
        attempt=ignored.attempt,
        reason="InvalidPodSetUpdates",
    )
    return replaced(entries, ignored, rejected), seq


def asks_for_preemption() -> list[Entry]:
    """A check asks that others are preempted; another one ends the attempt, and the next one begins."""
    world = checked_cell("gpu", "tpu", quota=2, preemption={"withinClusterQueue": "LowerPriority"})
    world.add_check("gpu", preemptionPolicy="AfterCheckPassedOrOnDemand")
    world.apply(priority_class("high", 100))
    world.submit("low", cpu=2).settle()
    for name in ("gpu", "tpu"):
        world.say("low", name, "Ready").settle()
    world.submit("high", cpu=2, priority_class="high").settle()
    world.say("high", "tpu", "Pending", reason="PreemptionRequired").settle()
    return world.log


def nobody_has_asked(entries: list[Entry]) -> Damaged:
    """As if the check had said no more than Pending."""
    seq, _ = first(entries, PreemptionsAllowed)
    said = [each for _, each in events_of(entries) if isinstance(each, CheckStateChanged)][-1]
    return replaced(entries, said, msgspec.structs.replace(said, reason="")), seq


LATE = (variant_without_parent, all_switched_off, *LATE_DECISIONS)
"""What is missing is found when it is missed."""

BROKEN = [
    ("parent-admitted", families, parent_without_variant),
    ("parent-admitted", families, variant_without_parent),
    ("parent-admitted", crashed, admitted_before_settled),
    ("no-orphan", families, variant_of_nobody),
    ("has-a-chance", waiting, all_switched_off),
    ("approval-kept", checked, approval_lost),
    ("retry-waits", checked, too_early),
    ("held-back", checked, too_early_for_its_backoff),
    ("retry-stands", checked, ready_all_the_same),
    ("retry-stands", one_of_two_taken, open_all_the_same),
    ("approval-stands", ready_again, rejected_for_additions),
    ("asked-for", asks_for_preemption, nobody_has_asked),
    ("quota", families, twice_the_quota),
    ("reservations", families, released_twice),
    ("reservations", families, admitted_without_quota),
    ("allowed-flavors", picky, not_asked),
    ("allowed-flavors", migrates, another_flavor),
    ("migration", migrates, migrates_without_gate),
    ("stopped-first", gated, marked_as_it_runs),
    ("stopped-first", gated, unmarked_as_it_runs),
    ("kept-for-variants", gated, given_up_before_its_variants),
    ("reservations", gated, quota_of_both),
    ("one-variant", families, two_variants),
    ("one-gate", families, two_gates),
    ("one-gate", families, closed_gate),
    ("delays-had", delayed, longer_delay),
    ("no-circles", families, turned_round),
    ("no-circles", families, over_and_over),
    ("two-slices", elastic, three_slices),
    ("first-claim", claimed, claimed_twice),
    ("growth", elastic, no_growth),
    ("ended-pods", shrunk, given_back_twice),
    ("ended-pods", shrunk, given_back_once_more),
    ("ungated", elastic, more_pods),
    ("no-lost-job", families, no_answer),
    ("chain", families, cause_in_the_future),
    ("state", families, charged_twice),
    *BROKEN_DECISIONS,
]


@pytest.mark.parametrize(("name", "story", "damage"), BROKEN, ids=[f"{n}-{d.__name__}" for n, _, d in BROKEN])
def test_what_breaks_an_invariant_is_found(name, story, damage):
    """`bisect` names the message at fault, by its sequence."""
    entries, seq = damage(story())
    found = first_violation(ListSource(entries), name)

    assert found is not None
    assert found.invariant == name
    assert found.seq > seq if damage in LATE else found.seq == seq, found.text


@pytest.mark.parametrize(
    "story",
    [
        families,
        elastic,
        shrunk,
        checked,
        one_of_two_taken,
        moved,
        delayed,
        *dict.fromkeys(story for _, story, _ in BROKEN_DECISIONS),
    ],
    ids=lambda each: each.__name__,
)
def test_sound_logs_break_none(story):
    """And they decide themselves again."""
    entries = story()
    assert not wrong_with(entries)
    assert lint(ListSource(entries))[0] == []


def test_what_was_done_before_is_to_be_done_again():
    """Of the finished job nothing is left to do; of the next one of its name everything."""
    entries = begun_again()
    assert [e.remaining for _, e in events_of(entries) if isinstance(e, CompletionsUpdated)] == [{"main": 2}]
    assert first(entries, QuotaReserved, 2)[1].pod_sets[0].count == 4
    assert not wrong_with(entries, writers=("scheduler", "slices"))
    assert not first_violation(ListSource(entries), "useless-growth")


def test_a_scheduler_that_is_late_breaks_none():
    """For half a minute nobody decides: then it says first that nobody has to go any more."""
    entries = promised()
    seq, _ = first(entries, PendingPreemptionsIssued)
    late = [_later(entry, 30 * SECOND) if entry.seq == seq else entry for entry in entries]
    assert first_violation(ListSource(late), "needed-promise") is None


def test_a_check_that_the_queue_has_no_more_delays_nobody():
    """It asked for a minute, and was taken away with the flavor before the scheduler heard of it."""
    world = checked_cell("gpu")
    world.submit("w").settle()
    world.say("w", "gpu", "Retry", requeueAfterSeconds=60)
    world.step("checks")
    world.apply(flavor("other"), cluster_queue({"other": 10}, policy={})).step("checks")
    world.settle()
    assert len(world.events(QuotaReserved)) == 2
    assert lint(ListSource(world.log))[0] == []


def test_what_is_said_of_a_check_after_it_was_taken_from_the_queue_delays_nobody():
    """The scheduler has heard of the edit before: who is preempted then comes back once there is room."""
    preemption = {"withinClusterQueue": "LowerPriority"}
    world = checked_cell("gpu", quota=1, preemption=preemption).apply(*CLASSES)
    world.submit("w", priority_class="low").settle()
    world.say("w", "gpu", "Retry", requeueAfterSeconds=600)
    world.apply(cluster_queue({"default": 1}, policy={}, preemption=preemption))
    world.step("checks", 1)
    world.submit("urgent", priority_class="high").step("slices")
    world.step("scheduler")
    world.settle_all()
    world.report("urgent", "JobFinished", success=True).settle_all()
    assert len(world.events(ChecksRetry)) == 1
    assert len([event for event in world.events(QuotaReserved) if "job-w-" in event.workload]) == 2
    assert lint(ListSource(world.log))[0] == []


def test_what_another_controller_had_said_of_a_check_delays_nobody():
    """The check is the new one's, who has said nothing yet: then it says Ready."""
    world = checked_cell("gpu")
    world.submit("w").settle()
    world.say("w", "gpu", "Retry", requeueAfterSeconds=60)
    world.step("checks")
    world.presence("another").add_check("gpu", controllerName="another").step("checks")
    world.say("w", "gpu", "Ready").step("checks")
    assert [type(e).__name__ for e in world.events(ChecksRetry, ChecksPending, ChecksReady)] == [
        "ChecksRetry",
        "ChecksPending",
        "ChecksReady",
    ]
    world.settle()
    assert lint(ListSource(world.log))[0] == []


def _later(entry: Entry, delay: int) -> Entry:
    steps = [
        Step(upto=step.upto, at=step.at + delay, events=step.events)
        for step in decode_commit(entry.payload).steps
    ]
    return entry._replace(payload=encode_commit("main", entry.suffix, "x", steps))


def test_every_invariant_has_a_log_that_breaks_it():
    assert {name for name, _, _ in BROKEN} == set(INVARIANTS)


def test_what_is_not_about_it_is_passed_over():
    """A verdict on a workload that is gone breaks nothing."""
    entries = families()
    last = entries[-1]
    step = Step(upto=last.seq, at=last.at, events=(ChecksReady(cause=0, workload="default/gone"),))  # type: ignore[arg-type]
    payload = encode_commit("main", "checks", "x", [step])
    log = [*entries, Entry(last.seq + 1, "checks", last.at, payload)]
    assert not wrong_with(log, writers=("slices", "variants", "scheduler"))


def test_loops_and_thrashing_are_found_and_explained():
    """Two jobs that take turns, and one that is stopped again and again: named, with rule and cost."""
    entries = families()
    seq, event = first(entries, Preempted)
    _, evicted = first(entries, Evicted)
    back = msgspec.structs.replace(event, workload=event.preemptor, preemptor=event.workload)
    begun = msgspec.structs.replace(first(entries, Admitted)[1], workload=evicted.workload)
    again = (begun, msgspec.structs.replace(first(entries, JobResumed)[1], workload=begun.workload), evicted)
    looped = followed(entries, event, back)
    thrashed = followed(entries, event, *again, *again, *again)

    found = lint(ListSource(looped))[1]
    assert [(v.invariant, v.seq) for v in found] == [("loops", seq)]
    assert "preempt each other" in found[0].text
    assert "withinClusterQueue" in found[0].text
    (found_again,) = lint(ListSource(thrashed))[1]
    assert found_again.invariant == "thrashing"
    assert "was stopped 3 times" in found_again.text or "was stopped 4 times" in found_again.text
    assert not lint(ListSource(entries))[1]


@pytest.mark.parametrize("what", ["configuration", "job"])
def test_who_strikes_back_after_an_edit_does_not_loop(what: str) -> None:
    """Other rules hold, or the job asks for something else: that it goes the other way now is meant."""
    entries = families()
    _, event = first(entries, Preempted)
    back = msgspec.structs.replace(event, workload=event.preemptor, preemptor=event.workload)
    edited: Event = WorkloadUpdated(cause=0, workload=event.workload, priority=1000)
    if what == "configuration":
        edited = first(entries, ObjectApplied)[1]
    assert lint(ListSource(followed(entries, event, back)))[1]
    assert not lint(ListSource(followed(entries, event, edited, back)))[1]


def _left_out(pod_sets: int) -> list[Entry]:
    """Many jobs run; the last one is said to wait for quota that is free, and is deleted a minute later."""
    world = cell(cluster_queue({"default": 90}, {}))
    for number in range(30):
        world.submit(f"j{number}").settle_all()
    sets = [
        {"name": f"p{n}", "replicas": 1, "command": ["true"], "resources": {"cpu": 1}}
        for n in range(pod_sets)
    ]
    manifest = {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "late", "namespace": "default"},
        "spec": {"queueName": "main", "podSets": sets},
    }
    world.message("job.default.late", "JobSubmitted", manifest).settle_all()
    world.now += 60 * SECOND
    world.message("job.default.late", "JobDeleted", {}).settle_all()
    _, reserved = first(world.log, QuotaReserved, -1)
    parked = WorkloadsParked(
        cause=reserved.cause, workloads=(reserved.workload,), reason="WaitingForQuota", message="none"
    )

    def change(event: Event) -> Sequence[Event]:
        if event == reserved:
            return (parked,)
        own = isinstance(event, Admitted | Evicted | QuotaReleased) and event.workload == reserved.workload
        return () if own else (event,)

    return altered(world.log, change)


@pytest.mark.parametrize("pod_sets", [1, 2])
def test_quota_that_was_idle_for_a_while_is_seen_later(pod_sets: int) -> None:
    """However long the log, and though nobody waits at its end: the cell stood still with it."""
    found, _ = lint(ListSource(_left_out(pod_sets)))
    (idle,) = [violation for violation in found if violation.invariant == "idle-quota"]
    assert "default/job-late-" in idle.text


def test_a_name_that_comes_again_is_no_reservation_from_before() -> None:
    """A variant goes with its parent, and one of the next family may be called as it was."""
    world = cell(cluster_queue({"res": 1}))
    world.submit("a").settle_all()
    world.message("job.default.a", "JobDeleted", {}).settle()
    world.submit("a").settle()
    world.report("a", "JobFinished", success=True).settle_all()
    made = [event.workload.name.encode() for event in world.events(VariantCreated)]
    assert len(set(made)) == 2
    entries = [entry._replace(payload=entry.payload.replace(made[1], made[0])) for entry in world.log]
    assert list(broken(ListSource(entries), ["reservations"])) == []
