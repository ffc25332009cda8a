"""Counters for operators: totals since the log began, by cluster queue.

They are folded like all else, so that every replica has the same numbers, and a restart begins with none.
`TOTALS` is the whole list; its texts are what exporters and `docs/operations.md` say.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

Totals = dict[tuple[str, ...], int]
"""(metric, value of each label) -> total, in whole units of the metric."""


class Exemplar(NamedTuple):
    """The newest time that a bucket of a histogram has counted, and where in the log it ended."""

    micros: int
    seq: int
    at: int
    """Microseconds since the epoch."""


Exemplars = dict[tuple[str, ...], Exemplar]
"""(metric, value of each label) of the narrowest bucket that counts it -> what it counted last."""


class Total(NamedTuple):
    """One metric: what it says, its labels, and how many of what is counted make one unit."""

    text: str
    labels: tuple[str, ...] = ("cluster_queue",)
    unit: str = "1"
    per_unit: int = 1


SLICES_CREATED = "sluice_workload_slices_created_total"
SLICES_REPLACED = "sluice_workload_slices_replaced_total"
SLICES_RESIZED = "sluice_workload_slices_resized_total"
SLICES_DELETED = "sluice_workload_slices_deleted_total"
SLICES_WAITED = "sluice_workload_slices_waited_seconds_total"
CONSTRAINED = "sluice_unsatisfied_admission_constraints_total"
ADMITTED = "sluice_admitted_workloads_total"
EVICTED = "sluice_evicted_workloads_total"
VARIANTS_ADMITTED = "sluice_admitted_variants_total"
VARIANTS_EVICTED = "sluice_evicted_variants_total"
VARIANTS_SWITCHED = "sluice_variants_total"
VARIANTS_UNGATED = "sluice_variant_preemption_gates_opened_total"
MIGRATED = "sluice_migrations_total"
MIGRATION_LOST = "sluice_migration_lost_seconds_total"
QUOTA_WAIT = "sluice_quota_reserved_wait_time_seconds"
CHECKS_WAIT = "sluice_admission_checks_wait_time_seconds"
ADMISSION_WAIT = "sluice_admission_wait_time_seconds"
READY_WAIT = "sluice_admitted_until_ready_wait_time_seconds"
EXECUTION = "sluice_execution_time_seconds"
QUOTA_RESERVED = "sluice_quota_reserved_workloads_total"
PREEMPTED = "sluice_preempted_workloads_total"
FINISHED = "sluice_finished_workloads_total"

WAIT_BOUNDS_S = (1, 2, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240)
"""Upper bounds of the histograms of times."""

_TIMES = {
    QUOTA_WAIT: "from the creation of a workload, or from when it was requeued, to its quota",
    CHECKS_WAIT: "from the quota of a workload to its admission, with admission checks in between",
    ADMISSION_WAIT: "from the creation of a job, or from when it was requeued, to its admission",
    READY_WAIT: "from the admission of a job until its pods were ready",
    EXECUTION: "that jobs which are over had run, all their attempts together",
}

TOTALS: Mapping[str, Total] = {
    SLICES_CREATED: Total("Workload slices made to replace a smaller one"),
    SLICES_REPLACED: Total("Workload slices that another one has replaced"),
    SLICES_RESIZED: Total(
        "Workload slices of another size, in place: down with quota kept, or while waiting",
        ("cluster_queue", "state"),
    ),
    SLICES_DELETED: Total(
        "Replaced workload slices that were deleted, for their age, their number, or with their job"
    ),
    SLICES_WAITED: Total(
        "Sum of the times from the creation of slices to the replacement of the ones before",
        unit="s",
        per_unit=10**6,
    ),
    CONSTRAINED: Total(
        "Verdicts on pending workloads that name a constraint of their own", ("cluster_queue", "constraint")
    ),
    ADMITTED: Total("Admissions; of a job with variants, one for each time that it was started"),
    EVICTED: Total("Evictions, of a job with variants once", ("cluster_queue", "reason")),
    QUOTA_RESERVED: Total("Reservations of quota; those of variants are not counted"),
    PREEMPTED: Total(
        "Workloads preempted, by the queue of who preempted them, and by the rule",
        ("preempting_cluster_queue", "reason"),
    ),
    FINISHED: Total("Jobs that are over; `result` is Succeeded or Failed", ("cluster_queue", "result")),
    VARIANTS_ADMITTED: Total("Admissions of variants", ("cluster_queue", "variant")),
    VARIANTS_EVICTED: Total("Evictions of variants", ("cluster_queue", "variant", "reason")),
    VARIANTS_SWITCHED: Total(
        "Variants created, deleted, activated and deactivated", ("cluster_queue", "variant", "change")
    ),
    VARIANTS_UNGATED: Total("Preemption gates of variants opened", ("cluster_queue", "variant")),
    MIGRATED: Total("Jobs that have moved to a more favorable variant"),
    MIGRATION_LOST: Total(
        "Sum of the times from the evictions by migration until pods were ready again",
        unit="s",
        per_unit=10**6,
    ),
    **{
        f"{name}_bucket": Total(f"How many times of at most `le` seconds {text}", ("cluster_queue", "le"))
        for name, text in _TIMES.items()
    },
    **{f"{name}_count": Total(f"How many times {text}") for name, text in _TIMES.items()},
    **{
        f"{name}_sum": Total(f"Sum of the times {text}", unit="s", per_unit=10**6)
        for name, text in _TIMES.items()
    },
}


def count(totals: Totals, metric: str, *labels: str, n: int = 1) -> None:
    """Add *n* to a series."""
    key = (metric, *labels)
    totals[key] = totals.get(key, 0) + n


_BOUNDS_US = tuple(bound * 10**6 for bound in WAIT_BOUNDS_S)


@lru_cache(maxsize=4096)
def _histogram(metric: str, cluster_queue: str) -> tuple[tuple[str, ...], ...]:
    """Return the series of a histogram: count, sum, and the buckets in the order of their bounds."""
    buckets = (f"{metric}_bucket", cluster_queue)
    return (
        (f"{metric}_count", cluster_queue),
        (f"{metric}_sum", cluster_queue),
        *((*buckets, str(bound)) for bound in WAIT_BOUNDS_S),
        (*buckets, "+Inf"),
    )


def waited(totals: Totals, exemplars: Exemplars, metric: str, cluster_queue: str, example: Exemplar) -> None:
    """Add one waiting time to a histogram, and keep it as the exemplar of its bucket."""
    micros = example.micros
    counted, total, *buckets = _histogram(metric, cluster_queue)
    totals[counted] = totals.get(counted, 0) + 1
    totals[total] = totals.get(total, 0) + max(0, micros)
    narrowest = bisect_left(_BOUNDS_US, micros)
    exemplars[buckets[narrowest]] = example
    for bucket in buckets[narrowest:]:
        totals[bucket] = totals.get(bucket, 0) + 1


def series(totals: Totals) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield metric, labels and value of each series, in order."""
    for key in sorted(totals):
        metric = TOTALS.get(key[0])
        if metric is not None:
            value = totals[key]
            shown = value if metric.per_unit == 1 else value / metric.per_unit
            yield key[0], dict(zip(metric.labels, key[1:], strict=True)), shown


__all__ = ["EVICTED", "FINISHED", "PREEMPTED", "TOTALS", "WAIT_BOUNDS_S", "Exemplar", "series"]
