"""Equivalence of workloads to the scheduler: one verdict holds for all that are equal (SC2).

The key covers what a workload's record says and flavor assignment, preemption or the queue's namespace
selector look at. Not in it, because it is no part of the record or can change while the workload waits:
the effective priority, reclaimable pods, opened preemption gates and earlier evictions. Combine the key
with those that matter:

    key = (equivalence_key(record), workload.priority, ...)

Creation time is left out on purpose: the queue looks at the oldest first, and what the older one may
preempt includes what a newer one may. So is the concurrent-admission parent: variants of different jobs are
equal, and what rests on siblings must be in the combined key (`state.class_key`). A variant is never equal to
a workload of its own, as it alone has variants' preemption gate: what each may use differs while the feature
gate is off.
"""

import sys
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from sluice.events.base import PodSet
from sluice.events.slices import WorkloadRecord

_encode = msgspec.json.Encoder(order="deterministic").encode


def equivalence_key(record: WorkloadRecord) -> str:
    """Return the same string object for records that the scheduler cannot tell apart.

    Pod set names count, as they are named in the verdict. Costs some microseconds: call it once a record.
    """
    pod_sets = record.pod_sets
    wishes: tuple[object, ...] = (
        tuple(record.allowed_flavors),
        record.cannot_preempt,
        record.cannot_borrow,
        tuple(record.preemption_gates),
        record.replaces,
    )
    if record.misconfigured:
        wishes = (*wishes, record.misconfigured)
    if len(pod_sets) == 1 and record.replaces is None:
        pods = pod_sets[0]
        if not (pods.node_selector or pods.node_affinity or pods.tolerations):
            named = (record.namespace, pods.name, pods.count, pods.min_count, pods.group)
            return _plain(*named, tuple(pods.requests.items()), wishes)
    return _text(record.namespace, pod_sets, wishes)


@lru_cache(maxsize=8192)
def _plain(
    namespace: str,
    name: str,
    count: int,
    min_count: int | None,
    group: str,
    requests: tuple[tuple[str, int], ...],
    wishes: tuple[object, ...],
) -> str:
    """Return the key of one pod set that may run anywhere: users submit the same job many times over."""
    pods = PodSet(name=name, count=count, min_count=min_count, group=group, requests=dict(requests))
    return _text(namespace, [pods], wishes)


def _text(namespace: str, pod_sets: Sequence[PodSet], wishes: tuple[object, ...]) -> str:
    pods = [
        (
            ps.name,
            ps.count,
            ps.min_count,
            ps.requests,
            ps.node_selector,
            ps.node_affinity,
            ps.tolerations,
            ps.group,
        )
        for ps in pod_sets
    ]
    return sys.intern(_encode((namespace, pods, wishes)).decode())
