"""Properties of the life-cycle over generated histories."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.lifecycle import due
from sluice.core.workload.reasons import HOLDING
from sluice.core.world.inadmissible import why_not_queued
from sluice.events.base import WorkloadKey
from sluice.events.checks import ChecksReady, ChecksRejected, ChecksRetry
from sluice.events.scheduler import Admitted, Evicted, QuotaReleased, Requeued
from sluice.events.slices import WorkloadFinished, WorkloadPodsReady, WorkloadStopped, WorkloadUpdated
from tests.support.examples import examples
from tests.support.lifecycle_history import (
    SECOND,
    History,
    checked_queue,
    configuration,
    created,
    local_queue,
    reserved,
)

NAMES = ("a", "b", "c")
WAIT = configuration(
    waitForPodsReady={
        "enable": True,
        "timeoutSeconds": 50,
        "recoveryTimeoutSeconds": 20,
        "requeuingStrategy": {"backoffBaseSeconds": 10, "backoffLimitCount": 2},
    }
)

Action = tuple[str, str, int]
actions = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "reserve",
                "admit",
                "preempt",
                "stop",
                "ready",
                "lost",
                "retry",
                "reject",
                "checks",
                "off",
                "on",
                "drain",
                "start",
                "drain-local",
                "start-local",
                "finish",
                "reload",
            ]
        ),
        st.sampled_from(NAMES),
        st.sampled_from([0, 0, 1, 10, 100]),
    ),
    max_size=60,
)


def perform(history: History, action: Action) -> None:
    """Do what the world could do now; an action that makes no sense at this point is left out."""
    verb, name, seconds = action
    history.at += seconds * SECOND
    history.settle()
    key = WorkloadKey(f"ns/{name}")
    workload = history.world.workloads.get(key)
    if workload is None:
        return  # it has finished
    holds = workload.assignment is not None
    queued = not holds and workload.active and not workload.held_for
    match verb:
        case "reserve" if queued and why_not_queued(history.world, workload.record) is None:
            history.tell(reserved(name))
        case "admit" if holds and workload.admitted_at is None and workload.evicted_at is None:
            history.tell(Admitted(workload=key, cause=0))
        case "preempt" if holds and workload.evicted_at is None:
            history.tell(Evicted(workload=key, reason="Preempted", message="m", cause=0))
        case "stop":
            history.tell(WorkloadStopped(workload=key, cause=0))
        case "ready" | "lost":
            history.tell(WorkloadPodsReady(workload=key, ready=verb == "ready", cause=0))
        case "checks" if holds:
            history.tell(ChecksReady(workload=key, cause=0))
        case "retry":
            until = history.at + 30 * SECOND
            history.tell(ChecksRetry(workload=key, checks=["late"], requeue_at=until, cause=0))
        case "reject" if holds:
            history.tell(ChecksRejected(workload=key, checks=["late"], cause=0))
        case "off" | "on":
            history.tell(WorkloadUpdated(workload=key, active=verb == "on", cause=0))
        case "drain" | "start":
            history.tell(checked_queue(stopPolicy="HoldAndDrain" if verb == "drain" else "None"))
        case "drain-local" | "start-local":
            history.tell(local_queue(stopPolicy="HoldAndDrain" if verb == "drain-local" else "None"))
        case "finish":
            history.tell(WorkloadFinished(workload=key, cause=0))
        case "reload":
            history.reload()
    history.settle()


def begin() -> History:
    history = History().tell(checked_queue(), local_queue(), WAIT)
    for number, name in enumerate(NAMES, 1):
        history.tell(created(name, number, maximum_execution_time_s=400 if name == "c" else None))
    return history


def validate(history: History) -> None:
    for workload in history.world.workloads.values():
        if workload.evicted_at is not None:
            assert workload.admitted_at is not None, "only what runs has to be waited for"
            assert not workload.stopped
        if workload.assignment is None:
            assert not workload.held_for or workload.held_for in HOLDING
            assert workload.admitted_at is None
            assert not workload.stopped
        shown = history.view.workloads[workload.key]
        assert shown.holds_quota == (workload.assignment is not None)
        assert shown.active == workload.active
        assert shown.requeue_at == workload.requeue_at
        assert shown.past_execution_us == workload.past_execution_us
        assert (shown.admitted_at is None) == (workload.admitted_at is None)


@settings(max_examples=examples(200), deadline=None)
@given(actions)
def test_every_history_settles(history_of):
    """After each event the state is settled, the view agrees, and a restart would go on the same way."""
    history = begin()
    for action in history_of:
        perform(history, action)
        validate(history)
        live, loaded = history.lc, due.rebuild(history.world, history.at)
        assert loaded.due == live.due == {}
        assert loaded.deadlines.of == live.deadlines.of
        assert {k: set(v) for k, v in loaded.held.items()} == {k: set(v) for k, v in live.held.items()}


@settings(max_examples=examples(100), deadline=None)
@given(actions)
def test_every_eviction_comes_to_an_end(history_of):
    """Once all pods stop, queues run and time passes, whoever is active has quota or is queued again."""
    history = begin()
    for action in history_of:
        perform(history, action)
    history.tell(checked_queue(), local_queue())
    history.settle()
    for name in NAMES:
        history.tell(WorkloadStopped(workload=WorkloadKey(f"ns/{name}"), cause=0))
    history.settle()
    history.at += 10_000 * SECOND
    history.settle()
    for workload in history.world.workloads.values():
        assert workload.assignment is None or workload.admitted_at is None
        assert workload.held_for == "" or not workload.active


@settings(max_examples=examples(100), deadline=None)
@given(actions)
def test_evictions_releases_and_returns_alternate(history_of):
    """No second eviction before the release, no second release, no return without a release."""
    history = begin()
    for action in history_of:
        perform(history, action)
    for name in NAMES:
        mine = [e for e in history.decided if getattr(e, "workload", "") == f"ns/{name}"]
        returns = [e for e in mine if isinstance(e, Requeued)]
        releases = [e for e in mine if isinstance(e, QuotaReleased)]
        assert len(returns) <= len(releases)
