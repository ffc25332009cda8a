"""Where a job of variants runs, and whether a better variant would take it anywhere else (CA10)."""

from collections.abc import Mapping

import pytest

from sluice.core.world.variants import moves_nowhere, stays_at
from sluice.core.world.workload import Workload
from sluice.events.base import PodSet, PodSetAssignment
from sluice.events.slices import WorkloadRecord


def record(requests: Mapping[str, int], allowed: tuple[str, ...] = ()) -> WorkloadRecord:
    pods = PodSet(name="main", count=2, requests=dict(requests))
    return WorkloadRecord(
        namespace="ns",
        name="v",
        uid="u",
        queue_name="q",
        created_at=0,
        pod_sets=(pods,),
        allowed_flavors=allowed,
    )


def place(count: int = 2, **flavors: str) -> tuple[PodSetAssignment, ...]:
    return (PodSetAssignment(name="main", count=count, flavors=flavors, usage=dict.fromkeys(flavors, 1)),)


RUNS = place(cpu="f", gpu="g")


@pytest.mark.parametrize(
    ("there", "nowhere"),
    [
        (place(cpu="f", gpu="g"), True),
        (place(1, cpu="f", gpu="g"), True),
        (place(3, cpu="f", gpu="g"), False),
        (place(cpu="f", gpu="better"), False),
        (place(cpu="f", gpu="g", memory="f"), False),
        # What it asks for no more, as a limit range's default is gone, is nothing to be stopped for.
        (place(cpu="f"), True),
        (place(), True),
    ],
)
def test_a_move_is_to_another_flavor_or_for_more_pods(
    there: tuple[PodSetAssignment, ...], nowhere: bool
) -> None:
    asked = record({"cpu": 1, "gpu": 1})
    running = Workload(asked, asked.key, asked.uid, 0, assignment=RUNS)
    assert moves_nowhere(running, there) is nowhere


@pytest.mark.parametrize(
    ("requests", "allowed", "may"),
    [
        ({"cpu": 1, "gpu": 1}, (), True),
        ({"cpu": 1, "gpu": 1}, ("f", "g"), True),
        ({"cpu": 1, "gpu": 1}, ("f",), False),
        ({"cpu": 1}, ("f",), True),
        ({}, ("other",), True),
    ],
)
def test_variants_that_may_have_the_place_or_a_part_of_it_are_looked_at_apart(
    requests: Mapping[str, int], allowed: tuple[str, ...], may: bool
) -> None:
    assert bool(stays_at(record(requests, allowed), RUNS)) is may
