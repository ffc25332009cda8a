"""All that keeps a job out is named, and lifted together; who must stop for others is not waited for."""

from typing import Any

import pytest

from sluice.replay.explain.why_text import plain_words
from tests.support.explained import explained
from tests.support.family_world import (
    FamilyWorld,
    cell,
    cluster_queue,
    configuration,
    flavor,
    job,
    local_queue,
)
from tests.unit.replay.lint.test_invariants import CLASSES

GATE = "kueue.x-k8s.io/admission-gated-by"


def held_local() -> dict[str, Any]:
    found = local_queue()
    found["spec"]["stopPolicy"] = "Hold"
    return found


def queue(quota: int, **spec: Any) -> dict[str, Any]:
    return cluster_queue({"res": quota}, {}, **spec)


def submit_gated(world: FamilyWorld) -> None:
    manifest = job("a")
    manifest["metadata"]["annotations"] = {GATE: "example.com/budget"}
    world.message("job.default.a", "JobSubmitted", manifest)


LOCAL = "LocalQueue main is inactive: its stopPolicy is Hold"
CLUSTER = "ClusterQueue main is inactive: "
MISSING = "references missing ResourceFlavor(s): res"
STOPS: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "both queues": (
        {"local": True, "cluster": True},
        [LOCAL, CLUSTER],
        ["resuming LocalQueue default/main", "resuming main"],
    ),
    "both queues and the quota": (
        {"local": True, "cluster": True, "quota": 0},
        [LOCAL, CLUSTER],
        ["resuming LocalQueue default/main", "resuming main", "1 more cpu of res in the nominal quota"],
    ),
    "a queue and the quota": (
        {"cluster": True, "quota": 0},
        [CLUSTER],
        ["resuming main", "1 more cpu of res in the nominal quota"],
    ),
    "a local queue and a flavor": (
        {"local": True, "missing": True},
        [LOCAL, MISSING],
        ["resuming LocalQueue default/main", "a ResourceFlavor res"],
    ),
    "both queues, a flavor and a gate": (
        {"local": True, "cluster": True, "missing": True, "gated": True},
        [LOCAL, CLUSTER, MISSING, "Admission is gated by: example.com/budget"],
        ["resuming LocalQueue default/main", "resuming main", "a ResourceFlavor res", f"annotation {GATE}"],
    ),
}


@pytest.mark.parametrize(("what", "bars", "lifted"), STOPS.values(), ids=STOPS)
def test_all_that_keeps_a_job_out_is_named_and_lifted_together(
    what: dict[str, Any], bars: list[str], lifted: list[str]
) -> None:
    world = cell(queue(what.get("quota", 1), stopPolicy="Hold" if "cluster" in what else "None"))
    if "local" in what:
        world.apply(held_local())
    if "missing" in what:
        world.delete("ResourceFlavor", "res")
    world.settle()
    if "gated" in what:
        submit_gated(world)
    else:
        world.submit("a")
    world.settle_all()
    report = explained(world, "a")
    assert report.rule == "Suspended", "the reason of its status: the highest one"
    for words in bars:
        assert words in report.message
    assert (
        report.message.count("; besides, ")
        == sum(words != MISSING or CLUSTER not in bars for words in bars) - 1
    )
    (remedy,) = report.remedies
    assert remedy.kind == "together"
    assert remedy.text.startswith("all of these together: ")
    for words in lifted:
        assert words in remedy.text
    assert remedy.text.count("; ") == len(lifted) - 1
    assert "No single change" not in "\n".join(plain_words(report))

    # Doing what it says admits it, and nothing less does.
    world.apply(queue(1)).settle_all()
    if "missing" in what:
        world.apply(flavor("res"))
    if "gated" in what:
        world.message("job.default.a", "JobSubmitted", job("a"))
    world.settle_all()
    if "local" in what:
        assert not world.flavor_of("a")
        assert len(explained(world, "a").remedies) == 1
        assert "together" not in explained(world, "a").remedies[0].text
        world.apply(local_queue()).settle_all()
    assert world.flavor_of("a") == "res"


def test_of_two_variants_the_one_that_takes_fewer_changes_comes_first() -> None:
    world = cell(cluster_queue({"res": 0, "od": 1}, stopPolicy="Hold"))
    world.apply(held_local())
    world.submit("a").settle_all()
    texts = [remedy.text for remedy in explained(world, "a").remedies]
    resumed = "all of these together: resuming LocalQueue default/main; resuming main"
    assert texts == [
        f"{resumed} (as variant od)",
        f"{resumed}; 1 more cpu of res in the nominal quota of main (as variant res)",
    ]


def test_one_stop_is_one_change() -> None:
    world = cell(queue(1, stopPolicy="Hold"))
    world.submit("a").settle_all()
    report = explained(world, "a")
    assert [remedy.text for remedy in report.remedies] == ["resuming main"]
    assert "besides" not in report.message


def test_who_makes_room_for_others_is_not_waited_for() -> None:
    """Each of two preemptors has its victims, on a flavor of its own."""
    preempts = {"withinClusterQueue": "LowerPriority"}
    world = cell(cluster_queue({"res": 1, "od": 1}, {}, preemption=preempts), *CLASSES)
    for name, flavors in (("low-res", "res"), ("low-od", "od"), ("high-res", "res"), ("high-od", "od")):
        manifest = job(name, priority_class=name.partition("-")[0])
        manifest["metadata"]["annotations"] = {"kueue.x-k8s.io/workload-allowed-resource-flavors": flavors}
        world.message(f"job.default.{name}", "JobSubmitted", manifest)
        if name == "low-od":
            world.settle_all()
    world.settle()  # the victims are told to stop, and do not
    for name in ("res", "od"):
        victim = explained(world, f"low-{name}")
        assert victim.phase == "Evicted"
        (remedy,) = explained(world, f"high-{name}").remedies
        assert remedy.text == f"nothing but time: {victim.workload} must stop first"


def test_what_is_lifted_together_is_lifted_at_the_same_time() -> None:
    """Beside the one whose pods are awaited there is room: nobody need come first, to be preempted."""
    preempts = {"withinClusterQueue": "LowerPriority"}
    world = cell(
        cluster_queue({"res": 4}, {}, queueingStrategy="StrictFIFO", preemption=preempts),
        configuration(waitForPodsReady={"enable": True, "blockAdmission": True}),
    )
    for name, cpu in (("a", 2), ("b", 2), ("c", 1)):
        world.submit(name, cpu).settle_all()
    (remedy,) = explained(world, "c").remedies
    assert remedy.text.startswith("all of these together: the pods of ")
    assert remedy.text.endswith("; priority 1 instead of 0")
    assert remedy.preempts == 0


def test_whom_a_change_would_preempt_is_named() -> None:
    world = cell(cluster_queue({"res": 1}, {}, preemption={"withinClusterQueue": "LowerPriority"}))
    for name in ("runs", "waits"):
        world.submit(name).settle_all()
    runs = explained(world, "runs").workload
    texts = [remedy.text for remedy in explained(world, "waits").remedies]
    assert f"priority 1 instead of 0 (it would preempt {runs})" in texts
