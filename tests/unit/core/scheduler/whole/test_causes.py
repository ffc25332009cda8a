"""What a change of configuration lets in, or has preempted, names that change as its cause (G10, DB1)."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice import core
from sluice.api.kueue import ConfigurationSpec
from sluice.events.base import Event
from sluice.events.scheduler import Admitted, Evicted, Requeued, WorkloadDeactivated, WorkloadsParked
from sluice.events.slices import WorkloadPodsReady, WorkloadUpdated
from tests.support.scheduler_cell import RECLAIMS, SECOND, Cell, admitted, evicted, key, parked

Edit = Callable[[Cell], object]


def cohort(cell: Cell, cpu: int, name: str = "c") -> None:
    quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    cell.configure("Cohort", name, {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]})


def local_queue(cell: Cell, policy: str) -> None:
    cell.configure("LocalQueue", "a", {"clusterQueue": "a", "stopPolicy": policy}, "ns")


def stopped_local_queue(cell: Cell) -> None:
    cell.queue("a", cpu=2)
    local_queue(cell, "Hold")


def missing_flavor(cell: Cell) -> None:
    cell.queue("a", cpu=2)
    cell.delete("ResourceFlavor", "default")


EDITS: dict[str, tuple[Edit, Edit]] = {
    "quota": (lambda cell: cell.queue("a", cpu=1), lambda cell: cell.queue("a", cpu=2)),
    "the first of a StrictFIFO queue": (
        lambda cell: cell.queue("a", cpu=1, queueingStrategy="StrictFIFO"),
        lambda cell: cell.queue("a", cpu=2, queueingStrategy="StrictFIFO"),
    ),
    "a cohort's quota": (lambda cell: cell.queue("a", cpu=1, cohort="c"), lambda cell: cohort(cell, 1)),
    "a stopped ClusterQueue": (
        lambda cell: cell.queue("a", cpu=2, stopPolicy="Hold"),
        lambda cell: cell.queue("a", cpu=2),
    ),
    "a stopped LocalQueue": (stopped_local_queue, lambda cell: local_queue(cell, "None")),
    "a flavor": (missing_flavor, lambda cell: cell.configure("ResourceFlavor", "default", {})),
    "a queue that is made": (lambda _: None, lambda cell: cell.queue("a", cpu=2)),
    "a namespace's labels": (
        lambda cell: cell.queue("a", cpu=2, namespaceSelector={"matchLabels": {"team": "x"}}),
        lambda cell: cell.configure("Namespace", "ns", {}, labels={"team": "x"}),
    ),
}


def oldest_cause(events: list[Event], kind: type[Event]) -> int:
    return min(event.cause for event in events if isinstance(event, kind))


@pytest.mark.parametrize("edit", EDITS)
def test_who_is_admitted_by_an_edit_is_admitted_because_of_it(edit: str) -> None:
    before, after = EDITS[edit]
    cell = Cell()
    before(cell)
    cell.submit("first", "a", cpu=1)
    cell.submit("second", "a", cpu=1, priority=-1)
    cell.settle()
    known = cell.seq
    after(cell)
    events = cell.settle()
    assert "second" in admitted(events)
    assert oldest_cause(events, Admitted) > known


def test_who_is_preempted_after_an_edit_is_preempted_because_of_it() -> None:
    cell = Cell()
    cell.queue("a", cpu=1, cohort="c", preemption=RECLAIMS)
    cell.queue("b", cpu=3, cohort="c")
    cell.submit("borrower", "b", cpu=4)
    cell.settle()
    cell.submit("claims", "a", cpu=2)
    cell.settle()
    known = cell.seq
    cell.queue("a", cpu=2, cohort="c", preemption=RECLAIMS)
    events = cell.settle()
    assert evicted(events) == ["borrower"]
    assert oldest_cause(events, Evicted) > known


@pytest.mark.parametrize("how", ["applied", "deleted"])
def test_a_cohort_is_of_no_concern_to_other_trees(how: str) -> None:
    """Only who waits in its tree is looked at again when a cohort changes."""
    cell = Cell()
    cohort(cell, 1, "other")
    for name, tree in (("a", "c"), ("b", "other")):
        cell.queue(name, cpu=1, cohort=tree)
        cell.submit(f"{name}-waits", name, cpu=9)
    cell.settle()
    if how == "applied":
        cohort(cell, 2, "other")
    else:
        cell.delete("Cohort", "other")
    again = {key for event in cell.settle() if isinstance(event, WorkloadsParked) for key in event.workloads}
    assert again == {key("b-waits")}


SETTINGS: dict[str, object] = {
    "feature_gates": {"PartialAdmission": False},
    "fair_sharing": {"enable": True},
    "wait_for_pods_ready": {"enable": True},
    "admission_checks": {"controllerGraceSeconds": 7},
    "workload_slice_history_limit": 7,
    "workload_slice_retention_seconds": 7,
    "preemption_gate_timeout_seconds": 7,
    "retain_finished_jobs_seconds": 7,
    "retain_finished_jobs_count": 7,
    "queue_visibility_max_count": 7,
    "quota_check_strategy": "IgnoreUndeclared",
}
"""Each setting of a cell, changed."""
OTHER_SERVICES = ("budgets", "checks", "slices", "variants", "views")
"""Rooms of the core that the scheduler has no part in."""


def read_by_scheduler() -> set[str]:
    """Return the settings that rooms of the scheduler read, as `config.NAME` of whatever has a `config`."""
    root = Path(core.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        if path.relative_to(root).parts[0] in OTHER_SERVICES:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in SETTINGS:
                owner = node.value
                name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
                if name.strip("_") == "config":
                    found.add(node.attr)
    return found


def test_settings_that_no_verdict_rests_on_void_none() -> None:
    """A reason is told when it changes, or may have (G7): whatever the scheduler reads may change it."""
    assert SETTINGS.keys() == set(ConfigurationSpec.__struct_fields__)
    read = read_by_scheduler()
    assert "fair_sharing" in read
    names = dict(
        zip(ConfigurationSpec.__struct_fields__, ConfigurationSpec.__struct_encode_fields__, strict=True)
    )
    for name, changed in SETTINGS.items():
        cell = Cell()
        cell.queue("a", cpu=1)
        cell.submit("waits", "a", cpu=9)
        assert parked(cell.settle()) == ["waits"]
        cell.settings(**{names[name]: changed})
        assert (name, parked(cell.settle())) == (name, ["waits"] if name in read else [])


def limited(cell: Cell, **spec: int) -> int:
    """Let `w`, which has waited, be admitted, then edit something else of it; return what let it in."""
    cell.settings(waitForPodsReady={"enable": True, "timeoutSeconds": 60, **spec})
    cell.queue("a", cpu=1)
    cell.submit("first", "a")
    cell.settle()
    cell.submit("w", "a", maximum_execution_time_s=100)
    cell.settle()
    cell.finish("first")
    let_in = cell.seq
    assert admitted(cell.settle()) == ["w"]
    cell.put(WorkloadUpdated(cause=0, workload=key("w"), labels={"a": "b"}))
    cell.settle()
    return let_in


def ends(cell: Cell, after_s: int) -> list[int]:
    """Return the causes of what ends when so many seconds have passed."""
    cell.now += after_s * SECOND
    return [event.cause for event in cell.settle() if isinstance(event, Evicted | WorkloadDeactivated)]


def test_who_is_not_ready_in_time_is_evicted_because_of_what_let_it_in() -> None:
    """Not because of its creation, and not because of an edit that has not set the clock."""
    cell = Cell()
    let_in = limited(cell)
    assert ends(cell, 60) == [let_in]


def test_who_has_lost_its_pods_is_evicted_because_of_that() -> None:
    cell = Cell()
    limited(cell, recoveryTimeoutSeconds=30)
    cell.put(WorkloadPodsReady(cause=0, workload=key("w"), ready=True))
    cell.settle()
    cell.put(WorkloadPodsReady(cause=0, workload=key("w"), ready=False))
    lost = cell.seq
    cell.settle()
    assert ends(cell, 30) == [lost]


def test_who_has_run_for_too_long_ends_because_of_what_let_it_in_or_set_the_limit() -> None:
    for edited in (False, True):
        cell = Cell()
        cause = limited(cell)
        cell.put(WorkloadPodsReady(cause=0, workload=key("w"), ready=True))
        if edited:
            cell.put(WorkloadUpdated(cause=0, workload=key("w"), maximum_execution_time_s=90))
            cause = cell.seq
        cell.settle()
        assert set(ends(cell, 100)) == {cause}


@pytest.mark.parametrize("how", ["pods are ready", "it ends", "it is evicted"])
def test_whom_blocked_admission_lets_in_is_admitted_because_of_what_has_opened_it(how: str) -> None:
    """So are those of other trees, which wait for the same pods."""
    cell = Cell()
    cell.settings(waitForPodsReady={"enable": True, "blockAdmission": True})
    cell.queue("a", cpu=2)
    cell.queue("b", cpu=2)
    cell.submit("first", "a")
    cell.settle()
    for name in ("a", "b"):
        cell.submit(f"waits-{name}", name)
    assert sorted(parked(cell.settle())) == ["waits-a", "waits-b"]
    for name in ("a", "b"):
        cell.submit(f"waits-too-{name}", name)
        cell.settle()
    if how == "pods are ready":
        cell.put(WorkloadPodsReady(cause=0, workload=key("first"), ready=True))
    elif how == "it ends":
        cell.finish("first")
    else:
        cell.stopped("first")
    events = cell.settle()
    assert admitted(events)
    assert {event.cause for event in events} == {cell.seq}


def backing_off() -> Cell:
    """Return a cell in which `w` waits for a backoff to end, and others have freed quota since it began."""
    cell = Cell()
    cell.settings(waitForPodsReady={"enable": True, "timeoutSeconds": 60})
    cell.queue("a", cpu=2)
    cell.submit("w", "a")
    cell.submit("other", "a")
    cell.settle()
    cell.put(WorkloadPodsReady(cause=0, workload=key("other"), ready=True))
    cell.now += 60 * SECOND
    assert evicted(cell.settle()) == ["w"]
    cell.stopped("w")
    cell.settle()
    cell.submit("waits", "a", cpu=2)
    cell.settle()
    cell.finish("other")
    assert admitted(cell.settle()) == ["waits"]
    cell.finish("waits")
    cell.settle()
    cell.now += 3600 * SECOND
    return cell


def test_who_comes_back_from_a_backoff_owes_nothing_to_what_was_freed_meanwhile() -> None:
    cell = backing_off()
    events = cell.settle()
    assert admitted(events) == ["w"]
    (requeued,) = (event.cause for event in events if isinstance(event, Requeued))
    assert {event.cause for event in events} == {requeued}


def test_who_was_let_in_by_an_older_state_names_the_same_causes() -> None:
    """What has come to rest is known of a state that was read back, too."""
    cell = backing_off()
    cell.restart()
    events = cell.settle()
    (requeued,) = (event.cause for event in events if isinstance(event, Requeued))
    assert {event.cause for event in events} == {requeued}
