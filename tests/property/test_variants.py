"""Families of variants over random histories: races, migrations, preemptions, edits, restarts."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.core.views.present.pending import why_pending
from sluice.core.views.view import View
from sluice.events.scheduler import Admitted, Evicted
from tests.support.examples import examples
from tests.support.family_world import FamilyWorld, cell, cluster_queue, job, local_queue
from tests.support.objects import QUEUE, kueue_object, priority_class

FLAVORS = ("res", "od", "spot")
NAMES = tuple("abcdef")

POLICIES: tuple[dict[str, Any], ...] = (
    {"migration": {"mode": "TryPreferredFlavors"}},
    {"migration": {"mode": "RetainFirstAdmission"}},
    {"migration": {"mode": "TryPreferredFlavors", "constraints": {"lastAcceptableFlavorName": "res"}}},
    {
        "migration": {"mode": "TryPreferredFlavors"},
        "explicitVariants": [
            {"name": "best", "allowedResourceFlavors": ["res"], "deleteDelaySeconds": 60},
            {"name": "rest", "allowedResourceFlavors": ["od", "spot"], "createDelaySeconds": 20},
        ],
    },
)

ACTIONS = st.one_of(
    st.tuples(st.just("submit"), st.sampled_from(NAMES), st.integers(1, 3), st.integers(0, 1)),
    st.tuples(st.just("finish"), st.sampled_from(NAMES)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES)),
    st.tuples(st.just("crash"), st.sampled_from(NAMES)),
    st.tuples(st.just("ready"), st.sampled_from(NAMES)),
    st.tuples(st.just("obey")),
    st.tuples(st.just("time"), st.sampled_from((1, 30, 400))),
    st.tuples(st.just("step"), st.sampled_from(("slices", "variants", "scheduler")), st.integers(1, 4)),
    st.tuples(st.just("settle")),
    st.tuples(st.just("quota"), st.sampled_from(((2, 2, 4), (0, 2, 4), (4, 1, 0)))),
    st.tuples(st.just("flavors"), st.sampled_from((FLAVORS, ("od", "spot"), ("spot", "res", "od")))),
    st.tuples(st.just("restart"), st.sampled_from(("variants", "scheduler"))),
    st.tuples(st.just("check"), st.sampled_from(("Ready", "Retry", "Rejected")), st.integers(0, 5)),
)

CLASSES = [priority_class(f"p{n}", n * 100) for n in (0, 1)]
CHECK = kueue_object("AdmissionCheck", "slow", {"controllerName": "sluice.dev/external"})


class History:
    """Plays actions; what is not possible as things are is passed over."""

    def __init__(self, policy: int, checked: bool, *more: dict[str, Any]) -> None:
        self.quota = dict(zip(FLAVORS, (2, 2, 4), strict=True))
        self.names: tuple[str, ...] = FLAVORS
        self.policy = POLICIES[policy]
        self.checked = checked
        self.world: FamilyWorld = cell(self.queue(), *CLASSES, CHECK, *more)

    def queue(self) -> dict[str, Any]:
        extra: dict[str, Any] = {"preemption": {"withinClusterQueue": "LowerPriority"}}
        if self.checked:
            extra["admissionChecksStrategy"] = {
                "admissionChecks": [{"name": "slow", "onFlavors": ["od"]}],
            }
        return cluster_queue({name: self.quota[name] for name in self.names}, self.policy, **extra)

    def play(self, action: tuple[Any, ...]) -> None:
        world = self.world
        match action:
            case ("submit", name, cpu, level):
                world.submit(name, cpu, priority_class=f"p{level}")
            case ("finish", name):
                if world.flavor_of(name):
                    world.report(name, "JobFinished", success=True)
            case ("delete", name):
                world.message(f"job.default.{name}", "JobDeleted", {})
            case ("crash", name):
                if world.flavor_of(name):
                    world.report(name, "JobStopped")
            case ("ready", name):
                if world.flavor_of(name):
                    world.report(name, "JobPodsReady")
            case ("obey",):
                world.obey()
            case ("time", seconds):
                world.run_until(seconds)
            case ("step", writer, entries):
                world.now += 1000
                world.step(writer, entries)
            case ("settle",):
                world.settle()
            case ("quota", amounts):
                self.quota = dict(zip(FLAVORS, amounts, strict=True))
                world.apply(self.queue())
            case ("flavors", names) if not self.policy.get("explicitVariants"):
                self.names = names
                world.apply(self.queue())
            case ("restart", writer):
                service = world.services[writer]
                world.settle()
                service.state = service.decider.load(service.decider.dump(service.state))
            case ("check", state, number):
                self.check(state, number)

    def check(self, state: str, number: int) -> None:
        world = self.world.services["scheduler"].state.world
        waiting = [w for w in world.workloads.values() if w.reserved_at is not None and w.admitted_at is None]
        if waiting:
            self.world.checks_say(waiting[number % len(waiting)].key, state, 10)


def check_settled(world: FamilyWorld) -> None:
    """A parent is admitted exactly when a variant is; a pending family has an active variant or a reason."""
    families = world.services["variants"].state.families
    scheduler = world.services["scheduler"].state.world
    jobs = world.services["slices"].state.by_workload
    for key, family in families.items():
        admitted = [v.key for v in family.variants.values() if scheduler.workloads[v.key].admitted_at]
        running = [family.running] if family.running is not None else []
        assert admitted == running, f"{key} runs as {running}, admitted is {admitted}"
        assert jobs[key].admitted == bool(running)
        if not running and family.active and world.services["variants"].state.policy_of(family):
            delayed = world.services["variants"].state.deadlines.of.get(key) is not None
            assert any(v.active for v in family.variants.values()) or delayed, f"{key} has no chance"
    for key, workload in scheduler.workloads.items():
        parent = workload.record.parent
        assert parent is None or parent in families, f"{key} outlives its parent"


def check_view(world: FamilyWorld) -> None:
    """People are told of every pending variant what the scheduler knows, whoever it was said of (SC2)."""
    view = View()
    for seq, _, event in world.history:
        view.apply(event, seq, 0)
    for key, workload in world.services["scheduler"].state.world.workloads.items():
        peers = workload.peers
        if peers is None or peers.queue.stopped:
            continue
        if peers.parked or (peers.waiting is not None and peers.waiting in peers.queue.holding()):
            assert why_pending(view, view.workloads[key])[0] in (peers.reason, "PendingEvaluation"), key


def check_log(world: FamilyWorld) -> None:
    """At no position of the log are two variants of a parent admitted."""
    parent: dict[str, str] = {}
    admitted: dict[str, str] = {}
    for _, writer, event in world.history:
        name = type(event).__name__
        if name == "VariantCreated":
            record: Any = event.workload  # type: ignore[attr-defined]
            parent[record.key] = record.parent
        key = getattr(event, "workload", "")
        if not isinstance(key, str) or (
            key not in parent and name not in ("WorkloadFinished", "WorkloadDeleted")
        ):
            continue
        if isinstance(event, Admitted):
            assert parent[key] not in admitted, f"{key} beside {admitted[parent[key]]}"
            admitted[parent[key]] = key
        elif name in ("QuotaReleased", "VariantDeleted") and admitted.get(parent[key]) == key:
            del admitted[parent[key]]
        elif writer == "slices" and name in ("WorkloadFinished", "WorkloadDeleted"):
            admitted.pop(key, None)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 3), st.booleans(), st.lists(ACTIONS, min_size=5, max_size=40))
def test_families_keep_their_promises(policy: int, checked: bool, actions: list[tuple[Any, ...]]) -> None:
    history = History(policy, checked)
    for action in actions:
        history.play(action)
    history.world.settle_all()
    history.world.settle_all()
    check_settled(history.world)
    check_log(history.world)
    check_view(history.world)
    history.world.verify()


UNSHARED = {
    "apiVersion": "sluice.dev/v1alpha1",
    "kind": "Configuration",
    "metadata": {"name": "default"},
    "spec": {"featureGates": {"SchedulingEquivalenceHashing": False}},
}


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 3), st.lists(ACTIONS, min_size=5, max_size=40))
def test_sharing_verdicts_changes_nothing(policy: int, actions: list[tuple[Any, ...]]) -> None:
    """Jobs run on the same flavors as when every variant is looked at by itself (SC2)."""
    shared, unshared = History(policy, False), History(policy, False, UNSHARED)
    for action in actions:
        for history in (shared, unshared):
            history.play(action)
            history.world.settle_all()
        jobs = [key.partition("/")[2] for key in shared.world.services["slices"].state.jobs]
        for name in jobs:
            assert shared.world.flavor_of(name) == unshared.world.flavor_of(name), (name, action)
    shared.world.verify()
    unshared.world.verify()


def test_a_lost_job_migrates_no_evicted_reason() -> None:
    """An executor that stops by itself evicts the variant that ran, and the race begins again."""
    world = cell(cluster_queue({"res": 0, "od": 1}))
    world.submit("a").settle_all()
    world.report("a", "JobStopped").settle_all()
    assert world.flavor_of("a") == "od"
    reasons = [event.reason for event in world.events(Evicted) if isinstance(event, Evicted)]
    assert reasons == ["NodeFailures"]


def test_a_moved_job_is_an_ordinary_one() -> None:
    """A workload that leaves for a queue without concurrent admission has no variants any more."""
    world = cell(cluster_queue({"res": 0, "od": 0}))
    world.apply(cluster_queue({"od": 1}, {}, name="plain"), local_queue("plain", "plain"))
    world.submit("a").settle_all()
    assert len(world.variants("a")) == 2
    manifest = job("a")
    manifest["metadata"]["labels"][QUEUE] = "plain"
    world.message("job.default.a", "JobSubmitted", manifest).settle_all()
    assert world.flavor_of("a") == "od"
    assert world.variants("a") == {}
