"""Which workloads are the same to the scheduler, so that one verdict holds for all of them (SC2).

The key covers what a workload's record says and flavor assignment, preemption or the queue's namespace
selector look at. Not in it, because it is no part of the record or can change while the workload waits:
the effective priority, reclaimable pods, opened preemption gates and earlier evictions. Combine the key
with those that matter:

    peers = (equivalence_key(record), workload.priority, ...)

Creation time is left out on purpose: the queue looks at the oldest first, and what the older one may
preempt includes what a newer one may. So is the concurrent-admission parent: variants of different jobs are
equal, and what rests on siblings must be in the combined key (`state.peer_key`).
"""

import sys

import msgspec

from sluice.events.slices import WorkloadRecord

_encoder = msgspec.json.Encoder(order="deterministic")


_CACHED = 8192
_plain: dict[tuple[object, ...], str] = {}
"""What most workloads consist of -> their key. Users submit the same job many times over."""


def equivalence_key(record: WorkloadRecord) -> str:
    """Return the same string object for records that the scheduler cannot tell apart.

    Pod set names count, as they are named in the verdict. Costs some microseconds: call it once a record.
    """
    parts = _parts(record)
    if parts is None:
        return _encoded(record)
    found = _plain.get(parts)
    if found is None:
        if len(_plain) >= _CACHED:
            del _plain[next(iter(_plain))]
        found = _plain[parts] = _encoded(record)
    return found


def _parts(record: WorkloadRecord) -> tuple[object, ...] | None:
    """Return all that counts of a workload with one pod set and without any wishes, None of others."""
    if (
        len(record.pod_sets) != 1
        or record.allowed_flavors
        or record.preemption_gates
        or record.cannot_preempt
        or record.cannot_borrow
        or record.replaces is not None
    ):
        return None
    ps = record.pod_sets[0]
    if ps.node_selector or ps.node_affinity or ps.tolerations:
        return None
    return (record.namespace, ps.name, ps.count, ps.min_count, ps.group, *ps.requests.items())


def _encoded(record: WorkloadRecord) -> str:
    return sys.intern(
        _encoder.encode(
            (
                record.namespace,
                [
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
                    for ps in record.pod_sets
                ],
                record.allowed_flavors,
                record.cannot_preempt,
                record.cannot_borrow,
                record.preemption_gates,
                record.replaces,
            )
        ).decode()
    )
