"""The order of candidates, kept up to date (SC5), and what reservations do to it."""

import random

from msgspec import structs

from sluice.api.kueue import ConfigurationSpec
from sluice.core.world.queue_order import effective_priority, queue_order_timestamp
from sluice.core.world.reservations import change_usage, index, release, reorder, reserve
from sluice.events.base import WorkloadKey
from tests.support.candidates import sort_candidates
from tests.support.preemption_worlds import CPU, GPU, pending, queue, running, world


def order(in_queue) -> list[str]:
    entries = [*in_queue.candidates.evicted, *in_queue.candidates.running]
    return [workload.record.name for _, workload in entries]


def test_the_index_is_the_sorted_order_whatever_happens():
    """Through admissions, evictions, changes of priority and usage, and releases; and when made anew.

    So is what those of each priority hold.
    """
    w = world()
    a = queue(w, "a", "", cpu=100)
    chance = random.Random(7)
    live = []
    for i in range(200):
        action = chance.choice(["add", "add", "evict", "boost", "shrink", "release"])
        if action == "add" or not live:
            usage, level, at = chance.randrange(1, 4), chance.randrange(3), chance.randrange(1, 4)
            live.append(running(w, f"w{i}", "a", usage, priority=level, at=at))
            continue
        workload = chance.choice(live)
        if action == "evict":
            workload.evicted_at = 5
            reorder(w, workload)
        elif action == "boost":
            workload.priority += 1
            reorder(w, workload)
        elif action == "shrink":
            change_usage(w, workload, {CPU: 1})
        else:
            live.remove(workload)
            release(w, workload)
        expected = [x.record.name for x in sort_candidates(live, "other")]
        assert order(a) == expected
        for level in range(-1, 6):
            held = sum(x.usage[CPU] for x in live if x.priority <= level)
            assert a.candidates.held_below(level, CPU) == held
    before = order(a)
    index(a)
    a.candidates.discard(WorkloadKey("ns/nobody"))
    assert order(a) == before
    assert a.node.used(CPU) == a.candidates.held_below(99, CPU) == sum(x.usage[CPU] for x in live)


def test_release_without_a_reservation_does_nothing():
    w = world()
    a = queue(w, "a", "", cpu=1)
    workload = running(w, "x", "a", 1)
    release(w, workload)
    release(w, workload)
    assert (a.node.used(CPU), len(a.candidates), a.workloads) == (0, 0, {})


def test_a_workload_that_was_read_anew_takes_its_own_place():
    w = world()
    candidates = queue(w, "a", "", cpu=4).candidates
    running(w, "x", "a", 1)
    again = pending("x", "a")
    again.usage, again.reserved_at = {CPU: 1}, 1

    candidates.put(again)

    [(_, kept)] = candidates.running
    assert kept is again


def test_nobody_holds_what_nobody_uses():
    w = world()
    a = queue(w, "a", "", cpu=4)
    running(w, "x", "a", 3)
    assert (a.candidates.held_below(0, CPU), a.candidates.held_below(0, GPU)) == (3, 0)


def test_a_changed_usage_is_what_is_charged_and_given_back():
    w = world()
    a = queue(w, "a", "", cpu=4)
    workload = running(w, "x", "a", 3)
    change_usage(w, workload, {CPU: 1})
    assert a.node.available(CPU) == 3
    release(w, workload)
    assert a.node.available(CPU) == 4
    reserve(w, workload)
    assert a.node.available(CPU) == 3


def test_consumption_of_local_queues_counts_within_one_queue_only():
    """With admission fair sharing, who consumed more gives first, before priority."""
    w = world()
    queue(w, "a", "", cpu=9)
    low = running(w, "low", "a", 1, priority=1)
    high = running(w, "high", "a", 1, priority=9)
    high.record = structs.replace(high.record, queue_name="greedy")

    assert sort_candidates([low, high], "a") == [low, high]
    assert sort_candidates([low, high], "a", {"ns/lq": 1, "ns/greedy": 5}) == [high, low]
    assert sort_candidates([low, high], "a", {"ns/lq": 5, "ns/greedy": 1}) == [low, high]
    assert sort_candidates([low, high], "a", {"ns/greedy": 5}) == [low, high]


def test_priority_boost_needs_its_gate_and_a_number():
    on = ConfigurationSpec(feature_gates={"PriorityBoost": True})
    record = pending("x", "a", priority=10).record

    def boosted(text: str, config: ConfigurationSpec) -> int:
        annotations = {"kueue.x-k8s.io/priority-boost": text}
        return effective_priority(structs.replace(record, annotations=annotations), config)

    assert boosted("5", on) == 15
    assert boosted("-15", on) == -5
    assert boosted("5", ConfigurationSpec()) == 10
    assert [boosted(text, on) for text in ("", "high", "1.5", "--1", "9999999999", "²")] == [10] * 6


def test_queue_time_is_creation_or_the_eviction_that_keeps_the_place():
    config = ConfigurationSpec()
    workload = pending("x", "a", created_at=3)
    assert queue_order_timestamp(workload, config) == 3

    workload.last_evicted_at, workload.last_evicted_reason = 8, "PodsReadyTimeout"
    assert queue_order_timestamp(workload, config) == 8
    workload.last_evicted_reason = "Preempted"
    assert queue_order_timestamp(workload, config) == 3
    workload.last_evicted_reason = "AdmissionCheck"
    assert queue_order_timestamp(workload, config) == 8

    workload.reserved_at, workload.last_evicted_at = 9, None
    assert queue_order_timestamp(workload, config) == 3, "it has been given quota again"
    workload.last_evicted_at, workload.last_evicted_reason = 10, "AdmissionCheck"
    assert queue_order_timestamp(workload, config) == 10
