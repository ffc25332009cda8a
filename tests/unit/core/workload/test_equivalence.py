"""Which workloads share a verdict (SC2)."""

import msgspec
import pytest

from sluice.api.core_v1 import Toleration
from sluice.core.workload.equivalence import equivalence_key
from tests.support.flavor_builders import pod_set, workload

BASE = workload(pod_set(requests={"cpu": 1, "memory": 2})).record


def changed(**fields):
    return msgspec.structs.replace(BASE, **fields)


IRRELEVANT = [
    {"name": "other", "uid": "9", "created_at": 7},
    {"labels": {"team": "a"}, "annotations": {"note": "b"}},
    {"queue_name": "another", "maximum_execution_time_s": 5},
    {"parent": "default/p"},
    {"pod_sets": (pod_set(requests={"memory": 2, "cpu": 1}, labels={"x": "y"}, annotations={"x": "y"}),)},
]

RELEVANT = [
    {"namespace": "elsewhere"},
    {"allowed_flavors": ("spot",)},
    {"cannot_preempt": True},
    {"cannot_borrow": True},
    {"preemption_gates": ("gate",)},
    {"replaces": "default/old"},
    {"pod_sets": (pod_set(requests={"cpu": 2, "memory": 2}),)},
    {"pod_sets": (pod_set(count=2, requests={"cpu": 1, "memory": 2}),)},
    {"pod_sets": (pod_set("other", requests={"cpu": 1, "memory": 2}),)},
    {"pod_sets": (pod_set(requests={"cpu": 1, "memory": 2}, min_count=1),)},
    {"pod_sets": (pod_set(requests={"cpu": 1, "memory": 2}, node_selector={"a": "b"}),)},
    {"pod_sets": (pod_set(requests={"cpu": 1, "memory": 2}, tolerations=(Toleration(key="a"),)),)},
    {"pod_sets": (pod_set(requests={"cpu": 1, "memory": 2}, group="g"),)},
]


@pytest.mark.parametrize("fields", IRRELEVANT)
def test_equal_to_the_scheduler(fields):
    assert equivalence_key(changed(**fields)) is equivalence_key(BASE)


@pytest.mark.parametrize("fields", RELEVANT)
def test_different_to_the_scheduler(fields):
    assert equivalence_key(changed(**fields)) != equivalence_key(BASE)
