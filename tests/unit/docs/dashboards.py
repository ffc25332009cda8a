"""Writes deploy/dashboards/*.json: dashboards for Grafana, of the one table below.

python -m tests.unit.docs.dashboards
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import BigValueTextMode, LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    VariableRefresh,
)

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "deploy" / "dashboards"
SEEN = Path(__file__).with_name("panels_seen.json")
"""File of a dashboard -> panel -> how many series it had when `make dashboards-pictures` ran last."""

COUNT, SECONDS, RATE, RARE, SHARE = "short", "s", "cps", "cpm", "percentunit"
"""Units, as Grafana calls them; RARE is a minute, what mostly happens less than once a second."""

QUEUE = '{cluster_queue=~"$queue"}'
"""The queues that are chosen at the top of a dashboard."""

_BOTH = BigValueTextMode.VALUE_AND_NAME


class Panel(NamedTuple):
    title: str
    text: str
    """What it shows, and what to make of it."""
    unit: str
    queries: dict[str, str]
    """Expression -> legend."""
    number: bool = False
    """Shown as one number, not over time."""


class Board(NamedTuple):
    title: str
    rows: dict[str, list[Panel]]


def most(metric: str, labels: str) -> str:
    """Return a gauge; replicas have the same numbers, so take the greatest, not the sum."""
    return f"max by ({labels}) ({metric})"


def rate(metric: str, labels: str) -> str:
    """Return a counter's rate, of whichever replica is furthest."""
    return f"max by ({labels}) (rate({metric}[$__rate_interval]))"


def minutely(metric: str, labels: str) -> str:
    """Return what a counter grows in a minute, where it has counted at all."""
    return f"60 * {rate(metric, labels)} and {most(metric, labels)} > 0"


def total(expression: str, by: str = "") -> str:
    return f"sum by ({by}) ({expression})" if by else f"sum({expression})"


def quantile(share: float, metric: str) -> str:
    """Return how long all but so many have taken, in each queue."""
    counted = f"max by (cluster_queue, le) (rate({metric}_bucket{QUEUE}[$__rate_interval]))"
    return f"histogram_quantile({share}, {counted})"


def quantiles(title: str, text: str, metric: str) -> Panel:
    legends = {0.5: "half, {{cluster_queue}}", 0.95: "95 %, {{cluster_queue}}"}
    text += "; the finest bucket is a second, so what is below is a guess"
    return Panel(title, text, SECONDS, {quantile(share, metric): said for share, said in legends.items()})


def within(window: str) -> str:
    """Return the share of admissions that came within a second. Prometheus 3 writes the bound as 1.0."""
    name = "sluice_admission_wait_time_seconds"
    quick = f'sum(max by (cluster_queue) (rate({name}_bucket{{le=~"1|1[.]0"}}[{window}])))'
    return f"{quick} / sum(max by (cluster_queue) (rate({name}_count[{window}])))"


RESOURCE = "cluster_queue, flavor, resource"
HELD = most(f"sluice_cluster_queue_resource_reservation{QUEUE}", RESOURCE)
NOMINAL = most(f"sluice_cluster_queue_nominal_quota{QUEUE}", RESOURCE)
OLDEST = most(f"sluice_cluster_queue_oldest_pending_timestamp_seconds{QUEUE}", "cluster_queue")

ALL_HELD, ALL_NOMINAL = (
    total(most(f"sluice_cluster_queue_{what}", RESOURCE), "flavor, resource")
    for what in ("resource_reservation", "nominal_quota")
)
COHORT_HELD, COHORT_NOMINAL = (
    most(f"sluice_cohort_subtree_{what}", "cohort, flavor, resource")
    for what in ("resource_reservations", "quota")
)
IDLE = f"{HELD} - {most(f'sluice_cluster_queue_resource_usage{QUEUE}', RESOURCE)}"
FAILED = 'sluice_finished_workloads_total{result="Failed"}'
CONSTRAINED = f"sluice_unsatisfied_admission_constraints_total{QUEUE}"


def hourly(metric: str, labels: str) -> str:
    return f"sum(max by ({labels}) (rate({metric}[1h])))"


BOARDS: dict[str, Board] = {
    "cell": Board(
        "Sluice / Cell",
        {
            "Now": [
                Panel(
                    "Waiting",
                    "Workloads that wait for quota",
                    COUNT,
                    {total(most("sluice_pending_workloads", "cluster_queue, status")): "waiting"},
                    True,
                ),
                Panel(
                    "Admitted",
                    "Workloads that may run",
                    COUNT,
                    {total(most("sluice_admitted_active_workloads", "cluster_queue")): "admitted"},
                    True,
                ),
                Panel(
                    "Served by",
                    "1 for each console and api service that answers",
                    COUNT,
                    {'up{job="sluice"}': "{{instance}}"},
                    True,
                ),
                Panel(
                    "Version",
                    "More than one: an upgrade is under way",
                    COUNT,
                    {most("sluice_build_info", "version"): "{{version}}"},
                    True,
                ),
            ],
            "Flow": [
                Panel(
                    "Admissions and ends",
                    "Jobs a second; below the admissions for long: jobs pile up",
                    RATE,
                    {
                        total(rate("sluice_admitted_workloads_total", "cluster_queue")): "admitted",
                        total(
                            rate("sluice_finished_workloads_total", "cluster_queue, result"), "result"
                        ): "{{result}}",
                    },
                ),
                Panel(
                    "Jobs",
                    "Waiting and admitted, over time",
                    COUNT,
                    {
                        total(
                            most("sluice_pending_workloads", "cluster_queue, status"), "status"
                        ): "waiting, {{status}}",
                        total(most("sluice_admitted_active_workloads", "cluster_queue")): "admitted",
                    },
                ),
                Panel(
                    "Evictions",
                    "By reason",
                    RARE,
                    {
                        total(
                            minutely("sluice_evicted_workloads_total", "cluster_queue, reason"), "reason"
                        ): "{{reason}}"
                    },
                ),
                Panel(
                    "Quota in use",
                    "Of all queues together, of what they have",
                    SHARE,
                    {f"{ALL_HELD} / {ALL_NOMINAL}": "{{flavor}} {{resource}}"},
                ),
            ],
        },
    ),
    "queues": Board(
        "Sluice / Queues and fairness",
        {
            "Who waits": [
                Panel(
                    "Waiting",
                    "Inadmissible: looked at in vain, until something changes",
                    COUNT,
                    {
                        most(
                            f"sluice_pending_workloads{QUEUE}", "cluster_queue, status"
                        ): "{{cluster_queue}} {{status}}"
                    },
                ),
                Panel(
                    "Why",
                    "Workloads that are not admitted, by reason",
                    COUNT,
                    {
                        most(
                            f"sluice_unadmitted_workloads{QUEUE}", "cluster_queue, reason"
                        ): "{{cluster_queue}} {{reason}}"
                    },
                ),
                Panel(
                    "Longest wait",
                    "Of those that wait now; grows for ever where a queue starves",
                    SECONDS,
                    {f"time() - ({OLDEST} > 0)": "{{cluster_queue}}"},
                ),
                Panel(
                    "Asked for",
                    "What those that wait ask for, in base units",
                    COUNT,
                    {
                        most(
                            f"sluice_cluster_queue_resource_pending{QUEUE}", "cluster_queue, resource"
                        ): "{{cluster_queue}} {{resource}}"
                    },
                ),
                Panel(
                    "Not admitting",
                    "1: the queue is stopped, or something that it names is missing",
                    COUNT,
                    {
                        most(
                            'sluice_cluster_queue_status{cluster_queue=~"$queue",status="pending"}',
                            "cluster_queue",
                        ): "{{cluster_queue}}"
                    },
                ),
                Panel(
                    "Constraints",
                    "Verdicts that name a constraint of the workload's own",
                    RARE,
                    {minutely(CONSTRAINED, "cluster_queue, constraint"): "{{cluster_queue}} {{constraint}}"},
                ),
            ],
            "Quota": [
                Panel(
                    "Held",
                    "Of nominal quota; above 1: borrowed",
                    SHARE,
                    {f"{HELD} / ({NOMINAL} > 0)": "{{cluster_queue}} {{flavor}} {{resource}}"},
                ),
                Panel(
                    "Borrowed",
                    "Above nominal quota, in base units",
                    COUNT,
                    {f"clamp_min({HELD} - {NOMINAL}, 0)": "{{cluster_queue}} {{flavor}} {{resource}}"},
                ),
                Panel(
                    "Held and not admitted",
                    "Quota of workloads that wait for checks or for victims",
                    COUNT,
                    {IDLE: "{{cluster_queue}} {{flavor}} {{resource}}"},
                ),
                Panel(
                    "Limits",
                    "What a queue may borrow, and must not lend beyond",
                    COUNT,
                    {
                        most(
                            f"sluice_cluster_queue_borrowing_limit{QUEUE}", RESOURCE
                        ): "{{cluster_queue}} {{flavor}} {{resource}} may borrow",
                        most(
                            f"sluice_cluster_queue_lending_limit{QUEUE}", RESOURCE
                        ): "{{cluster_queue}} {{flavor}} {{resource}} lends at most",
                    },
                ),
            ],
            "Fairness": [
                Panel(
                    "Shares of queues",
                    "Dominant resource share in thousandths, by weight; 0: borrows nothing",
                    COUNT,
                    {
                        most(
                            f"sluice_cluster_queue_weighted_share{QUEUE}", "cluster_queue"
                        ): "{{cluster_queue}}"
                    },
                ),
                Panel(
                    "Shares of cohorts",
                    "The same of cohorts in cohorts",
                    COUNT,
                    {most("sluice_cohort_weighted_share", "cohort"): "{{cohort}}"},
                ),
                Panel(
                    "Cohorts",
                    "Quota that is held below a cohort, of the nominal quota there",
                    SHARE,
                    {f"{COHORT_HELD} / ({COHORT_NOMINAL} > 0)": "{{cohort}} {{flavor}} {{resource}}"},
                ),
                Panel(
                    "Admitted below cohorts",
                    "Workloads",
                    COUNT,
                    {most("sluice_cohort_subtree_admitted_active_workloads", "cohort"): "{{cohort}}"},
                ),
            ],
            "Local queues": [
                Panel(
                    "Waiting in local queues",
                    "Jobs",
                    COUNT,
                    {
                        most(
                            "sluice_local_queue_pending_workloads", "namespace, name"
                        ): "{{namespace}}/{{name}}"
                    },
                ),
                Panel(
                    "Admitted of local queues",
                    "Workloads",
                    COUNT,
                    {
                        most(
                            "sluice_local_queue_admitted_active_workloads", "namespace, name"
                        ): "{{namespace}}/{{name}}"
                    },
                ),
            ],
        },
    ),
    "preemption": Board(
        "Sluice / Preemption and migration",
        {
            "Preemption": [
                Panel(
                    "Preemptions",
                    "By the preemptor's queue and the rule",
                    RARE,
                    {
                        minutely(
                            'sluice_preempted_workloads_total{preempting_cluster_queue=~"$queue"}',
                            "preempting_cluster_queue, reason",
                        ): "{{preempting_cluster_queue}} {{reason}}"
                    },
                ),
                Panel(
                    "Evictions",
                    "Of each queue, by reason",
                    RARE,
                    {
                        minutely(
                            f"sluice_evicted_workloads_total{QUEUE}", "cluster_queue, reason"
                        ): "{{cluster_queue}} {{reason}}"
                    },
                ),
            ],
            "Migration": [
                Panel(
                    "Migrations",
                    "Jobs that have moved to a more favorable variant",
                    RARE,
                    {minutely(f"sluice_migrations_total{QUEUE}", "cluster_queue"): "{{cluster_queue}}"},
                ),
                Panel(
                    "Lost by migration",
                    "Time without pods, in each minute",
                    SECONDS,
                    {
                        minutely(
                            f"sluice_migration_lost_seconds_total{QUEUE}", "cluster_queue"
                        ): "{{cluster_queue}}"
                    },
                ),
                Panel(
                    "Variants admitted",
                    "A job that races has one for each flavor",
                    RARE,
                    {
                        minutely(
                            f"sluice_admitted_variants_total{QUEUE}", "cluster_queue, variant"
                        ): "{{cluster_queue}} {{variant}}"
                    },
                ),
                Panel(
                    "Variants evicted",
                    "By reason",
                    RARE,
                    {
                        minutely(
                            f"sluice_evicted_variants_total{QUEUE}", "cluster_queue, variant, reason"
                        ): "{{cluster_queue}} {{variant}} {{reason}}"
                    },
                ),
                Panel(
                    "Variants made and switched",
                    "Created, deleted, activated, deactivated",
                    RARE,
                    {
                        total(
                            minutely(f"sluice_variants_total{QUEUE}", "cluster_queue, variant, change"),
                            "change",
                        ): "{{change}}"
                    },
                ),
                Panel(
                    "Gates opened",
                    "Variants that were allowed to preempt",
                    RARE,
                    {
                        minutely(
                            f"sluice_variant_preemption_gates_opened_total{QUEUE}", "cluster_queue, variant"
                        ): "{{cluster_queue}} {{variant}}"
                    },
                ),
            ],
            "Elastic jobs": [
                Panel(
                    "Slices",
                    "Made, replaced by another one, deleted",
                    RARE,
                    {
                        minutely(
                            f"sluice_workload_slices_created_total{QUEUE}", "cluster_queue"
                        ): "{{cluster_queue}} created",
                        minutely(
                            f"sluice_workload_slices_replaced_total{QUEUE}", "cluster_queue"
                        ): "{{cluster_queue}} replaced",
                        minutely(
                            f"sluice_workload_slices_deleted_total{QUEUE}", "cluster_queue"
                        ): "{{cluster_queue}} deleted",
                    },
                ),
                Panel(
                    "Resized in place",
                    "Down with quota kept, or while waiting",
                    RARE,
                    {
                        minutely(
                            f"sluice_workload_slices_resized_total{QUEUE}", "cluster_queue, state"
                        ): "{{cluster_queue}} {{state}}"
                    },
                ),
                Panel(
                    "Growth waited for",
                    "Time that slices have waited, in each minute",
                    SECONDS,
                    {
                        minutely(
                            f"sluice_workload_slices_waited_seconds_total{QUEUE}", "cluster_queue"
                        ): "{{cluster_queue}}"
                    },
                ),
            ],
        },
    ),
    "checks": Board(
        "Sluice / Admission checks",
        {
            "Checks": [
                Panel(
                    "Controllers",
                    "0: the check has none, and its queues reserve nothing",
                    COUNT,
                    {
                        most(
                            "sluice_admission_check_active", "check, controller"
                        ): "{{check}} ({{controller}})"
                    },
                ),
                Panel(
                    "Waiting for checks",
                    "Workloads that hold quota meanwhile",
                    COUNT,
                    {most("sluice_admission_check_pending_workloads", "check"): "{{check}}"},
                ),
                quantiles(
                    "Time in checks",
                    "From the quota to the admission",
                    "sluice_admission_checks_wait_time_seconds",
                ),
                Panel(
                    "Not admitted for checks",
                    "Workloads, by queue",
                    COUNT,
                    {
                        most(
                            'sluice_unadmitted_workloads{cluster_queue=~"$queue",reason="UnsatisfiedAdmissionChecks"}',
                            "cluster_queue",
                        ): "{{cluster_queue}}"
                    },
                ),
            ]
        },
    ),
    "executors": Board(
        "Sluice / Executors",
        {
            "Executors": [
                Panel(
                    "Agents and other executors",
                    "Lost: no heartbeat; its jobs have been queued again, or wait",
                    COUNT,
                    {most("sluice_executors", "status"): "{{status}}"},
                ),
                quantiles(
                    "Until pods are ready",
                    "From the admission on",
                    "sluice_admitted_until_ready_wait_time_seconds",
                ),
                quantiles(
                    "Run time",
                    "Of jobs that are over, all attempts together",
                    "sluice_execution_time_seconds",
                ),
                Panel(
                    "Jobs that are over",
                    "By result",
                    RATE,
                    {
                        rate(
                            f"sluice_finished_workloads_total{QUEUE}", "cluster_queue, result"
                        ): "{{cluster_queue}} {{result}}"
                    },
                ),
            ]
        },
    ),
    "log": Board(
        "Sluice / Log and store",
        {
            "Log": [
                Panel(
                    "Messages",
                    "A second; services that stand still write none",
                    RATE,
                    {most("rate(sluice_folded_upto{job='sluice'}[$__rate_interval])", "job"): "messages"},
                ),
                Panel(
                    "Last message",
                    "How old it is; a quiet cell writes nothing",
                    SECONDS,
                    {f"time() - {most('sluice_folded_upto_timestamp_seconds', 'job')}": "age"},
                ),
                Panel(
                    "Length",
                    "Sequence of the last message, of each replica: one that stays behind is slow",
                    COUNT,
                    {"sluice_folded_upto{job='sluice'}": "{{instance}}"},
                ),
                Panel(
                    "Refused",
                    "Messages from outside; `sluice log rejected` tells which",
                    RARE,
                    {f"60 * {rate('sluice_rejected_messages_total', 'job')}": "refused"},
                ),
                Panel(
                    "Time to answer Prometheus",
                    "Grows with what waits; what is told is older then",
                    SECONDS,
                    {'scrape_duration_seconds{job="sluice"}': "{{instance}}"},
                ),
                Panel(
                    "Series",
                    "By queues, flavors, checks and reasons; never by jobs",
                    COUNT,
                    {'scrape_samples_scraped{job="sluice"}': "{{instance}}"},
                ),
            ]
        },
    ),
    "slo": Board(
        "Sluice / Service levels",
        {
            "Admission": [
                Panel(
                    "Admitted within a second",
                    "Of what was admitted in the last hour; the objective is yours: a "
                    "job that waits for others' quota counts, too",
                    SHARE,
                    {within("1h"): "one hour"},
                ),
                Panel(
                    "Burn rate",
                    "Misses of 99 % within a second: 1 uses the budget up in its period, 14 in two days "
                    "of thirty",
                    COUNT,
                    {f"round((1 - ({within(window)})) / 0.01, 0.001)": window for window in ("5m", "1h")},
                ),
                quantiles(
                    "Wait for quota",
                    "From the creation, or from when it was requeued",
                    "sluice_quota_reserved_wait_time_seconds",
                ),
                quantiles(
                    "Wait for admission", "The same, checks included", "sluice_admission_wait_time_seconds"
                ),
            ],
            "Disturbance": [
                Panel(
                    "Evictions for each admission",
                    "Work that is thrown away",
                    SHARE,
                    {
                        f"{hourly('sluice_evicted_workloads_total', 'cluster_queue, reason')}"
                        f" / {hourly('sluice_admitted_workloads_total', 'cluster_queue')}": "evicted"
                    },
                ),
                Panel(
                    "Failed",
                    "Of jobs that are over",
                    SHARE,
                    {
                        f"{hourly(FAILED, 'cluster_queue')}"
                        f" / {hourly('sluice_finished_workloads_total', 'cluster_queue, result')}": "failed"
                    },
                ),
            ],
        },
    ),
}
"""Name of the file -> what it has."""


def panels() -> Iterator[tuple[str, str, Panel]]:
    """Yield all panels with the names of their file and row."""
    for name, board in BOARDS.items():
        for row, found in board.rows.items():
            for panel in found:
                yield name, row, panel


def text(name: str) -> str:
    """Return a dashboard as Grafana reads it."""
    board = BOARDS[name]
    source = DataSourceRef(type_val="prometheus", uid="${datasource}")
    made = (
        dashboard.Dashboard(board.title)
        .uid(f"sluice-{name}")
        .tags(["sluice"])
        .refresh("30s")
        .time("now-3h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    if any("$queue" in query for where, _, panel in panels() if where == name for query in panel.queries):
        made = made.with_variable(
            dashboard.QueryVariable("queue")
            .label("Cluster queue")
            .datasource(source)
            .query("label_values(sluice_cluster_queue_info, cluster_queue)")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)
            .include_all(True)
            .all_value(".*")
        )
    number = 0
    for row, found in board.rows.items():
        number += 1
        made = made.with_row(dashboard.Row(row).id(number))
        for panel in found:
            number += 1
            made = made.with_panel(_panel(panel, source).id(number))
    return JSONEncoder(sort_keys=True, indent=2).encode(made.build()) + "\n"


def _panel(panel: Panel, source: DataSourceRef) -> stat.Panel | timeseries.Panel:
    shown: stat.Panel | timeseries.Panel
    if panel.number:
        last = common.ReduceDataOptions().calcs(["lastNotNull"])
        shown = stat.Panel().span(6).height(4).reduce_options(last).text_mode(_BOTH)
    else:
        legend = common.VizLegendOptions().show_legend(True)
        legend = legend.display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
        shown = timeseries.Panel().span(12).height(8).fill_opacity(8).min(0).legend(legend)
    shown.title(panel.title).description(panel.text).unit(panel.unit).datasource(source)
    for place, (expression, said) in enumerate(panel.queries.items()):
        query = prometheus.Dataquery().ref_id(chr(ord("A") + place)).expr(expression).legend_format(said)
        # The points above the curve lead to the log: each has the sequence with which its time ended.
        shown.with_target(query.exemplar(True) if "histogram_quantile" in expression else query)
    return shown


def table() -> Iterator[str]:
    """Yield the panels as rows for docs/metrics.md."""
    seen = json.loads(SEEN.read_text())
    yield "| dashboard | row | panel | shows | series |"
    yield "|---|---|---|---|---|"
    last: tuple[str, str] = ("", "")
    for name, row, panel in panels():
        link = f"[{BOARDS[name].title.partition(' / ')[2]}](../deploy/dashboards/{name}.json)"
        yield (
            f"| {link if name != last[0] else ''} | {row if (name, row) != last else ''} "
            f"| {panel.title} | {panel.text} | {seen[name][panel.title]} |"
        )
        last = name, row


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in BOARDS:
        (FOLDER / f"{name}.json").write_text(text(name))


if __name__ == "__main__":
    main()
