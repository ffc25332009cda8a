"""Where pods go: what flavors and checks add to the template's own placement (AC2)."""

from typing import Any

from sluice.api.core_v1 import Toleration
from sluice.api.kueue import PodSetUpdate
from sluice.events.checks import CheckStateChanged
from sluice.protocol.dispatch import DispatchPodSet
from tests.support.slices_world import World

RESERVED = Toleration(key="reserved", operator="Exists")


def said(world: World, check: str, state: str = "Ready", **update: Any) -> None:
    """A check of the job `a` says *state*, and what is to be added to its pods."""
    updates = (PodSetUpdate(name="main", **update),) if update else ()
    world.fold(
        CheckStateChanged(
            cause=0, workload=world.workload(), check=check, state=state, pod_set_updates=updates
        )
    )
    world.settle()


def placed(world: World) -> DispatchPodSet:
    entry = world.dispatch()
    assert entry is not None
    (pods,) = entry.pod_sets
    return pods


def reserved() -> World:
    world = World()
    world.apply_object("ResourceFlavor", "default", spec={"nodeLabels": {"pool": "any", "zone": "a"}})
    world.submit()
    world.reserve()
    return world


def test_what_checks_add_is_dispatched() -> None:
    """Labels, annotations, selector and tolerations of all checks, beside those of the flavor."""
    world = reserved()
    said(world, "b", labels={"team": "x"}, node_selector={"pool": "gpu"})
    said(world, "a", annotations={"provisioned": "yes"}, tolerations=[RESERVED])
    said(world, "c")
    world.admit()

    pods = placed(world)

    assert pods.node_selector == {"pool": "gpu", "zone": "a"}
    assert pods.labels == {"team": "x"}
    assert pods.annotations == {"provisioned": "yes"}
    assert list(pods.tolerations) == [RESERVED]
    world.check()


def test_what_a_check_takes_back_is_not_dispatched() -> None:
    """Only what a check that is Ready says now counts."""
    world = reserved()
    said(world, "a", labels={"team": "x"})
    said(world, "a", "Pending")
    said(world, "b", labels={"team": "y"})
    said(world, "b", labels={"zone": "z"})
    world.admit()

    assert placed(world).labels == {"zone": "z"}
    world.check()


def test_another_attempt_begins_without_what_was_added() -> None:
    """An eviction resets checks (AC4), and with them what they added."""
    world = reserved()
    said(world, "a", node_selector={"pool": "gpu"})
    world.admit()
    world.evict()
    world.job("JobStopped", {"attempt": 1})
    world.release()
    world.admit()

    entry = world.dispatch()
    assert entry is not None
    assert entry.attempt == 2
    assert placed(world).node_selector == {"pool": "any", "zone": "a"}
    world.check()
