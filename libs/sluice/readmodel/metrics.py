"""Metrics of a cell for Prometheus, worked out of the fold: exact, and the same on all replicas.

Names and labels are Kueue's with the prefix `sluice_` where Kueue has such a metric (`Gauge.kueue`). Gauges
say how things are at the sequence of `folded_upto`; counters and histograms (`sluice.core.views.totals`)
count since the log began. No label names a job, so there are as many series as queues, flavors, checks and
reasons make.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.api import kueue
from sluice.core.preemption.targets import RULES
from sluice.core.quota.fair_share import dominant_resource_share
from sluice.core.quota.tree import FlavorResource, Node, Quota
from sluice.core.timing import MICROS_PER_S
from sluice.core.views import ClusterQueueView, cluster_queue_status, local_queue_status, reasons_of
from sluice.core.views.present.unadmitted import waiting_for
from sluice.core.views.quota_totals import cohort_names, members
from sluice.core.views.totals import EVICTED, FINISHED, PREEMPTED, TOTALS, WAIT_BOUNDS_S, Exemplar, series
from sluice.core.workload import reasons
from sluice.core.workload.pending_reasons import PENDING_EVALUATION, WAITING_FOR_PREEMPTED
from sluice.log.cell import Presence

from .quota_tree import tree_of
from .world import World

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

PREFIX, KUEUE = "sluice_", "kueue_"

QUEUE = ("cluster_queue",)
RESOURCE = ("cohort", "cluster_queue", "flavor", "resource")
LOCAL = ("name", "namespace")


class Gauge(NamedTuple):
    """What a gauge says. *kueue*: has Kueue one of this name, with these labels?"""

    text: str
    labels: tuple[str, ...] = QUEUE
    kueue: bool = True


GAUGES: Mapping[str, Gauge] = {
    "pending_workloads": Gauge(
        "Workloads that wait for quota; `status` is active, or inadmissible: looked at in vain",
        ("cluster_queue", "status"),
    ),
    "unadmitted_workloads": Gauge(
        "Workloads that are not admitted, by why; with quota: UnsatisfiedAdmissionChecks",
        ("cluster_queue", "reason"),
    ),
    "reserving_active_workloads": Gauge("Workloads with quota"),
    "admitted_active_workloads": Gauge("Workloads that are admitted and not over"),
    "cluster_queue_oldest_pending_timestamp_seconds": Gauge(
        "Since when the oldest of those that wait for quota waits (Unix time); 0 without any", kueue=False
    ),
    "cluster_queue_status": Gauge(
        "1 for the status that the queue has: pending (no new admissions), active or terminating",
        ("cluster_queue", "status"),
    ),
    "cluster_queue_info": Gauge(
        "1 for each queue, with the cohort that it is in, and that one's root",
        ("cluster_queue", "cohort", "root_cohort"),
    ),
    "cluster_queue_resource_usage": Gauge("Quota of admitted workloads, in base units", RESOURCE),
    "cluster_queue_resource_reservation": Gauge("Quota of workloads that hold quota", RESOURCE),
    "cluster_queue_resource_pending": Gauge(
        "What workloads that wait for quota ask for", ("cohort", "cluster_queue", "resource")
    ),
    "cluster_queue_nominal_quota": Gauge("Nominal quota", RESOURCE),
    "cluster_queue_borrowing_limit": Gauge("Borrowing limit, where there is one", RESOURCE),
    "cluster_queue_lending_limit": Gauge("Lending limit, where there is one", RESOURCE),
    "cluster_queue_weighted_share": Gauge(
        "Dominant resource share in thousandths, weighted; 9223372036854775807 for weight 0 that borrows",
        ("cluster_queue", "cohort"),
    ),
    "cohort_info": Gauge(
        "1 for each cohort, with its parent and its root", ("cohort", "parent_cohort", "root_cohort")
    ),
    "cohort_weighted_share": Gauge("The same of a cohort", ("cohort",)),
    "cohort_subtree_quota": Gauge(
        "Nominal quota of a cohort and of all below it", ("cohort", "flavor", "resource")
    ),
    "cohort_subtree_resource_reservations": Gauge(
        "Quota that workloads of all queues below a cohort hold", ("cohort", "flavor", "resource")
    ),
    "cohort_subtree_admitted_active_workloads": Gauge("Admitted workloads below a cohort", ("cohort",)),
    "local_queue_pending_workloads": Gauge("Jobs of a LocalQueue that wait for quota", LOCAL, kueue=False),
    "local_queue_reserving_active_workloads": Gauge("Workloads of a LocalQueue with quota", LOCAL),
    "local_queue_admitted_active_workloads": Gauge("Workloads of a LocalQueue that are admitted", LOCAL),
    "local_queue_status": Gauge("1 while the LocalQueue is active", (*LOCAL, "active")),
    "admission_check_active": Gauge(
        "1 while the check has a controller", ("check", "controller"), kueue=False
    ),
    "admission_check_pending_workloads": Gauge(
        "Workloads with quota that wait for the check", ("check",), kueue=False
    ),
    "executors": Gauge("Agents and other executors by status: Ready, Away or Lost", ("status",), kueue=False),
    "folded_upto": Gauge("The sequence of the log that all these numbers are of", (), kueue=False),
    "folded_upto_timestamp_seconds": Gauge("When that message was stored (Unix time)", (), kueue=False),
    "build_info": Gauge("1, with the version", ("version",)),
}
"""Name after the prefix -> what it says."""

REJECTED, REJECTED_TEXT = f"{PREFIX}rejected_messages_total", "Messages from outside that were refused"

COUNTERS_OF_KUEUE = frozenset(
    f"{PREFIX}{name}"
    for name in (
        "admission_checks_wait_time_seconds",
        "admission_wait_time_seconds",
        "admitted_until_ready_wait_time_seconds",
        "admitted_workloads_total",
        "evicted_workloads_total",
        "execution_time_seconds",
        "finished_workloads_total",
        "preempted_workloads_total",
        "quota_reserved_wait_time_seconds",
        "quota_reserved_workloads_total",
    )
)
"""Of `TOTALS`, what Kueue has, too."""

FROM_ZERO: Mapping[str, tuple[str, ...]] = {
    EVICTED: (reasons.PREEMPTED, reasons.FLAVOR_MIGRATION),
    FINISHED: ("Succeeded", "Failed"),
    PREEMPTED: RULES,
}
"""Of a counter's second label, what each queue has from the beginning, as counters without a second one."""

_ACTIVE = frozenset((PENDING_EVALUATION, WAITING_FOR_PREEMPTED))

Sample = tuple[str, tuple[str, ...], float]
"""Gauge, value of each label, number."""


def gauges(world: World, version: str = "") -> Iterator[Sample]:
    """Yield how things are in *world*, one sample for each series."""
    view = world.view
    tree = tree_of(view)
    for name, queue in sorted(view.cluster_queues.items()):
        if queue.spec is not None:
            yield from _cluster_queue(world, queue, tree.cluster_queues[name])
            share = dominant_resource_share(tree, tree.cluster_queues[name])
            yield "cluster_queue_weighted_share", (name, queue.spec.cohort_name), share.rounded
    for name in sorted(cohort_names(view)):
        node = tree.cohorts[name]
        parent = "" if node.parent is None else node.parent.name
        yield "cohort_info", (name, parent, node.root().name), 1
        yield "cohort_weighted_share", (name,), dominant_resource_share(tree, node).rounded
        yield from _cohort(world, node)
    for key, local in sorted(view.local_queues.items()):
        if local.spec is not None:
            namespace, _, name = key.partition("/")
            status = local_queue_status(view, local)
            yield "local_queue_pending_workloads", (name, namespace), status["pendingWorkloads"]
            yield "local_queue_reserving_active_workloads", (name, namespace), local.reserving
            yield "local_queue_admitted_active_workloads", (name, namespace), local.admitted
            active = status["conditions"][0]["status"] == "True"
            for value in (True, False):
                yield "local_queue_status", (name, namespace, str(value)), float(active is value)
    for name, stored in sorted(world.objects.by_kind["AdmissionCheck"].items()):
        said = view.checks.get(name)
        assert isinstance(stored.object, kueue.AdmissionCheck)
        controller = stored.object.spec.controller_name
        yield "admission_check_active", (name, controller), float(said is not None and said.active)
        yield "admission_check_pending_workloads", (name,), len(waiting_for(view, name))
    found = Counter(_presence(who) for who in world.agents().values())
    for status_ in ("Ready", "Away", "Lost"):
        yield "executors", (status_,), found[status_]
    yield "folded_upto", (), world.seq
    yield "folded_upto_timestamp_seconds", (), world.at / MICROS_PER_S
    yield "build_info", (version,), 1


def _presence(who: Presence) -> str:
    return "Ready" if who.present else "Away" if who.away else "Lost"


def _cluster_queue(world: World, queue: ClusterQueueView, node: Node) -> Iterator[Sample]:
    name, spec = queue.name, queue.spec
    assert spec is not None
    cohort = spec.cohort_name
    root = node.root()
    yield "cluster_queue_info", (name, cohort, "" if root is node else root.name), 1
    active = cluster_queue_status(world.view, queue)["conditions"][0]["status"] == "True"
    shown = "terminating" if queue.terminating else "active" if active else "pending"
    for status in ("pending", "active", "terminating"):
        yield "cluster_queue_status", (name, status), float(status == shown)
    yield "reserving_active_workloads", (name,), len(queue.workloads)
    yield "admitted_active_workloads", (name,), queue.admitted
    for gauge, totals in (
        ("cluster_queue_resource_usage", queue.usage),
        ("cluster_queue_resource_reservation", queue.reservation),
    ):
        for fr in dict.fromkeys([*node.quotas, *sorted(totals)]):
            yield gauge, (cohort, name, *fr), _number(fr[1], totals.get(fr, 0))
    for fr, quota in node.quotas.items():
        for gauge, limit in _limits(quota):
            if limit is not None:
                yield gauge, (cohort, name, *fr), _number(fr[1], limit)
    yield from _pending(world, queue, cohort)


def _limits(quota: Quota) -> Iterator[tuple[str, int | None]]:
    yield "cluster_queue_nominal_quota", quota.nominal
    yield "cluster_queue_borrowing_limit", quota.borrowing_limit
    yield "cluster_queue_lending_limit", quota.lending_limit


def _pending(world: World, queue: ClusterQueueView, cohort: str) -> Iterator[Sample]:
    """Yield who waits for quota, and why; jobs with variants are counted by these."""
    view, statuses = world.view, Counter[str]()
    whys, asked, oldest = Counter[str](), Counter[str](), 0
    for local in queue.local_queues.values():
        workloads = [view.workloads[key] for key in local.pending]
        for workload, reason in zip(workloads, reasons_of(view, workloads), strict=True):
            statuses["active" if reason in _ACTIVE else "inadmissible"] += 1
            whys[reason] += 1
            for pods in workload.record.pod_sets:
                for resource, amount in pods.requests.items():
                    asked[resource] += amount * pods.count
            since = workload.record.created_at
            oldest = min(oldest, since) if oldest else since
    whys["UnsatisfiedAdmissionChecks"] += len(queue.workloads) - queue.admitted
    for status in ("active", "inadmissible"):
        yield "pending_workloads", (queue.name, status), statuses[status]
    for reason, count in sorted(whys.items()):
        yield "unadmitted_workloads", (queue.name, reason), count
    for resource, amount in sorted(asked.items()):
        yield "cluster_queue_resource_pending", (cohort, queue.name, resource), _number(resource, amount)
    yield "cluster_queue_oldest_pending_timestamp_seconds", (queue.name,), oldest / MICROS_PER_S


def _cohort(world: World, cohort: Node) -> Iterator[Sample]:
    name = cohort.name
    queues = members(world.view, name)
    yield "cohort_subtree_admitted_active_workloads", (name,), sum(queue.admitted for queue in queues)
    quota: Counter[FlavorResource] = Counter()
    held: Counter[FlavorResource] = Counter()
    for node in _below(cohort):
        quota.update({fr: each.nominal for fr, each in node.quotas.items()})
    for queue in queues:
        held.update(queue.reservation)
    for fr, amount in sorted(quota.items()):
        yield "cohort_subtree_quota", (name, *fr), _number(fr[1], amount)
    for fr, amount in sorted({**dict.fromkeys(quota, 0), **held}.items()):
        yield "cohort_subtree_resource_reservations", (name, *fr), _number(fr[1], amount)


def _below(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _below(child)


def _number(resource: str, amount: int) -> float:
    """Return an amount in base units: cores, bytes, devices."""
    return amount / 1000 if resource == "cpu" else float(amount)


REST = 20
"""For so many times as long as it took to work the metrics out, the same ones are told again."""


class CellMetrics:
    """Collects the metrics of a world for prometheus_client.

    *kueue_names*: what Kueue has, too, also under its names. However often somebody asks, it takes a
    twentieth of a processor at most: where many wait, what is told can be some seconds old, and says of which
    message it is.
    """

    def __init__(
        self,
        world: Callable[[], World],
        version: str,
        *,
        kueue_names: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._world, self._version, self._kueue, self._clock = world, version, kueue_names, clock
        self._told: list[Metric] = []
        self._seq, self._again = -1, 0.0

    def collect(self) -> Iterator["Metric"]:
        """Yield all metrics, as they are now or were a moment ago."""
        world, begun = self._world(), self._clock()
        if world.seq != self._seq and begun >= self._again:
            self._told = list(self._worked_out(world))
            self._seq, ended = world.seq, self._clock()
            self._again = ended + REST * (ended - begun)
        yield from self._told

    def _worked_out(self, world: World) -> Iterator["Metric"]:
        # Only when asked: it takes 50 ms to import.
        from prometheus_client.metrics_core import GaugeMetricFamily

        families = {
            name: GaugeMetricFamily(PREFIX + name, of.text, labels=of.labels) for name, of in GAUGES.items()
        }
        for name, labels, number in gauges(world, self._version):
            families[name].add_metric(labels, number)
        counters = list(_counters(world))
        yield from families.values()
        yield from counters
        if self._kueue:
            yield from (_renamed(families[name]) for name, of in GAUGES.items() if of.kueue)
            yield from (_renamed(each) for each in counters if _said(each) in COUNTERS_OF_KUEUE)


def _counters(world: World) -> Iterator["Metric"]:
    """Yield what is counted since the log began: a histogram where a metric has buckets, else a counter."""
    from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily

    yield CounterMetricFamily(REJECTED, REJECTED_TEXT, value=world.jobs.rejected)
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for name, labels, value in series(world.view.totals):
        found.setdefault(name, []).append((labels, value))
    queues = [name for name, queue in sorted(world.view.cluster_queues.items()) if queue.spec is not None]
    for name, total in TOTALS.items():
        base = name.removesuffix("_bucket")
        if base != name:
            family = HistogramMetricFamily(base, total.text, labels=QUEUE)
            yield _histogram(family, base, found, world.view.exemplars)
        elif f"{name.removesuffix('_count').removesuffix('_sum')}_bucket" not in TOTALS:
            counter = CounterMetricFamily(name, total.text, labels=total.labels)
            # A rate does not see the first event of a series that begins with it.
            numbers: dict[tuple[str, ...], float] = dict.fromkeys(_from_zero(name, total.labels, queues), 0)
            numbers.update({tuple(labels.values()): value for labels, value in found.get(name, ())})
            for values, value in numbers.items():
                counter.add_metric(values, value)
            yield counter


def _from_zero(name: str, labels: Sequence[str], queues: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the labels' values of series that are there before anything is counted."""
    if len(labels) == 1:
        yield from ((queue,) for queue in queues)
    for second in FROM_ZERO.get(name, ()):
        yield from ((queue, second) for queue in queues)


def _histogram(
    family: Any,
    base: str,
    found: Mapping[str, list[tuple[dict[str, str], float]]],
    exemplars: Mapping[tuple[str, ...], Exemplar],
) -> "Metric":
    buckets: dict[str, list[tuple[str, float]]] = {}
    for labels, value in found.get(f"{base}_bucket", ()):
        buckets.setdefault(labels["cluster_queue"], []).append((labels["le"], value))
    sums = {labels["cluster_queue"]: value for labels, value in found.get(f"{base}_sum", ())}
    for queue, counted in buckets.items():
        # Bounds that nobody has come under yet have no series of their own.
        known, all_of = dict(counted), 0.0
        rows: list[tuple[Any, ...]] = []
        for bound in (*map(str, WAIT_BOUNDS_S), "+Inf"):
            all_of = known.get(bound, all_of)
            example = exemplars.get((f"{base}_bucket", queue, bound))
            rows.append((bound, all_of) if example is None else (bound, all_of, _shown(example)))
        family.add_metric([queue], rows, sums.get(queue, 0.0))
    return family  # type: ignore[no-any-return]


def _shown(example: Exemplar) -> Any:
    """Return an exemplar as OpenMetrics has it: the sequence of the event with which that time ended."""
    from prometheus_client.samples import Exemplar as Shown
    from prometheus_client.samples import Timestamp

    seconds, micros = divmod(example.at, MICROS_PER_S)
    value = max(0, example.micros) / MICROS_PER_S
    return Shown({"sequence": str(example.seq)}, value, Timestamp(seconds, micros * 1000))


def _renamed(family: "Metric") -> "Metric":
    """Return the metric under Kueue's name."""
    found = copy(family)
    found.name = KUEUE + family.name.removeprefix(PREFIX)
    found.samples = [each._replace(name=KUEUE + each.name.removeprefix(PREFIX)) for each in family.samples]
    return found


def _said(family: "Metric") -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


__all__ = ["GAUGES", "REJECTED", "REJECTED_TEXT", "CellMetrics", "gauges"]
