"""The order of candidates in the words of Kueue's rule: what is kept in order must come out like it (SC5)."""

from collections.abc import Collection, Mapping
from functools import cmp_to_key

from sluice.core.world.workload import Workload


def sort_candidates(
    workloads: Collection[Workload], preemptor_queue: str, usage: Mapping[str, int] | None = None
) -> list[Workload]:
    """Return candidates in order of preemption, across queues.

    Evicted ones first, then those in other queues than the preemptor's; with `usage` (admission fair sharing:
    what each local queue consumed) those of the local queue that consumed more; then lower priority, newer
    reservation, uid.
    """
    consumed = usage or {}

    def compare(a: Workload, b: Workload) -> int:
        for before, after in (
            (a.evicted_at is None, b.evicted_at is None),
            (a.cluster_queue == preemptor_queue, b.cluster_queue == preemptor_queue),
        ):
            if before != after:
                return 1 if before else -1
        used_a, used_b = consumed.get(local_queue(a)), consumed.get(local_queue(b))
        if (
            a.cluster_queue == b.cluster_queue
            and used_a is not None
            and used_b is not None
            and used_a != used_b
        ):
            return -1 if used_a > used_b else 1
        return 0

    ranked = sorted(workloads, key=_rank_of)
    return sorted(ranked, key=cmp_to_key(compare))


def local_queue(workload: Workload) -> str:
    """Return the `namespace/name` of the workload's local queue."""
    return f"{workload.record.namespace}/{workload.record.queue_name}"


def _rank_of(workload: Workload) -> tuple[int, int, str, str]:
    return (workload.priority, -(workload.reserved_at or 0), workload.uid, workload.key)
