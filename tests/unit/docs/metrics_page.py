"""Writes docs/metrics.md: what a cell says to Prometheus.

python -m tests.unit.docs.metrics_page
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from sluice.core.views.totals import TOTALS, WAIT_BOUNDS_S
from sluice.readmodel.metrics import COUNTERS_OF_KUEUE, GAUGES, PREFIX, REJECTED, REJECTED_TEXT

from . import dashboards

PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"

ALERTS_SEEN = Path(__file__).with_name("alerts_seen.json")
"""Alert -> what `make alerts-table` has seen of it."""

HEAD = """# Metrics

Written by `make docs`, of the lists in `libs/sluice/readmodel/metrics.py` and
`libs/sluice/core/views/totals.py`.

The console serves these numbers for Prometheus at `/metrics`, beside its pages; so does the api
service, with `API_HTTP=:9400` (`host:port`). They are worked out of the log: every replica has the
same, and neither a restart nor a snapshot loses anything. So take the maximum over replicas, not the
sum. All are of the message `sluice_folded_upto`, which may be some seconds old where tens of thousands
wait: a page takes a twentieth of a processor at most, however often it is asked for.

```yaml
scrape_configs:
- job_name: sluice
  static_configs: [{targets: ["127.0.0.1:8400"]}]      # the line `Console:` of `sluice up`
```

**Names of Kueue.** Where Kueue has such a metric, ours has its name with `sluice_` instead of `kueue_`,
and its labels. With `/metrics?names=kueue` (console; in Prometheus `params: {names: [kueue]}`) or
`API_KUEUE_NAMES=true` those marked K are there under Kueue's names, too, so that dashboards made for
Kueue go on.

**Amounts** are in base units: cores, bytes, devices. **Series** are bounded by queues, flavors, checks
and reasons: no label names a job.

## How things are

"""

MIDDLE = """
## What has been counted since the log began

Histograms have the buckets `le` of {bounds} seconds.
"""


ALERTS = """
## Alerts

[deploy/prometheus/alerts.yaml](../deploy/prometheus/alerts.yaml) has rules for Prometheus
(`rule_files`; the scrape job is called `sluice`), each with a page that says what to type.
`alerts_test.yaml` beside it is for `promtool test rules`.

| alert | severity | after | says |
|---|---|---|---|
"""


ALERTS_TRIED = """
`make alerts-table` makes every fault in a cell of `sluice up`, with two agents, that a Prometheus scrapes
twice a second, waits for the alert, has the runbook's commands run, mends the fault and waits again. There
the rules wait for nothing (`for: 0s`) and look back for 20 seconds instead of minutes; so add to these times
the column *after* of the table above, and a scrape's and an evaluation's interval of your own:

"""

COSTS = """
## What it costs

`make bench ONLY=telemetry` runs the baseline scenario (15,000 jobs in 77 s) in turns without and with
everything on: spans and metrics of services by OTLP, a trace context in each message, `/metrics` scraped
every five seconds. On 2026-11-27, on two cores that others used as well (load 5 to 9), the services took
13.7 CPU seconds without and 19.0 with it, 1.38 times as much: scheduler 1.27, slice-aggregator 1.35,
variant-controller 1.17, admission-check 1.18, api 1.69, which answers the scrapes. That is one round, and
much more than the aim of 1.05. Spans were made of empty turns, too, in two rounds before: 27.4 and 35.9 CPU
seconds, 1.31 times, with 1.49 for the variant-controller and 1.32 for the api. How much of it is metrics,
spans, or links has not been told apart.

Without an exporter nothing is made or sent; what asks for it takes 1.2 us a turn of decisions, and 0.8 us a
commit.

"""

DASHBOARDS = """
## Dashboards

[deploy/dashboards](../deploy/dashboards) has dashboards for Grafana. Load one by *Dashboards, New, Import*;
or let Grafana read the folder: a file such as
[provider.yaml](../deploy/observability/grafana/dashboards/provider.yaml) in `provisioning/dashboards` names
it. The data source is chosen at the top, as are queues: no dashboard names one of its own. They take the
scrape job `sluice`, and the maximum over replicas. `docker compose` starts a Grafana that has them:
[deploy](deploy.md#prometheus-and-grafana).

They are made by `make docs` of the table in `tests/unit/docs/dashboards.py`. A test runs all their queries in
a real Prometheus that scrapes a cell under load. `make dashboards-pictures` draws them all into
`dist/dashboards`, by what Prometheus answered for 90 seconds in which jobs waited, raced, migrated,
preempted, grew, failed, were checked and were refused. Two of the seven, of that cell:

![cell: waiting, admitted, flow, quota in use](images/dashboard-cell.png)

![service levels: in bursts fewer are admitted within a second](images/dashboard-slo.png)

Panels of rare things count by the minute. Counters of a queue begin at 0, so that the first event is seen;
series with more labels than that (variants, constraints) begin with their first event, of which `rate` knows
nothing. *Series* is how many each panel had in that cell. What services say of themselves (commits, lag,
take-overs) comes by OTLP: [operations](operations.md#logs-and-metrics).

"""


def _alerts() -> Iterator[str]:
    rules = yaml.safe_load((PAGE.parents[1] / "deploy/prometheus/alerts.yaml").read_text())
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        name, severity = rule["alert"], rule["labels"]["severity"]
        says = (
            rule["annotations"]["summary"]
            .replace("{{ $labels.", "<")
            .replace(" }}", ">")
            .replace("{{ $value", "<n")
        )
        shown = says.replace("<", "`").replace(">", "`")
        yield f"| [{name}](runbooks/{name}.md) | {severity} | {rule['for']} | {shown} |"


def _alerts_seen() -> Iterator[str]:
    yield "| alert | fault | fired after | its runbook's commands | told of | resolved after |"
    yield "|---|---|---|---|---|---|"
    for alert, row in json.loads(ALERTS_SEEN.read_text()).items():
        yield f"| {' | '.join([alert, *row.values()])} |"


def _table(rows: Iterable[tuple[str, Iterable[str], str, bool]]) -> Iterator[str]:
    yield "| metric | labels | what | Kueue |"
    yield "|---|---|---|---|"
    for name, labels, text, kueue in rows:
        shown = ", ".join(f"`{label}`" for label in labels)
        yield f"| `{name}` | {shown} | {text} | {'K' if kueue else ''} |"


def _counted() -> Iterator[tuple[str, Iterable[str], str, bool]]:
    yield REJECTED, (), REJECTED_TEXT, False
    for name, total in sorted(TOTALS.items()):
        base = name.removesuffix("_bucket")
        if base != name:
            text = total.text.replace("How many times of at most `le` seconds ", "Histogram of times ")
            yield base, ("cluster_queue",), text, base in COUNTERS_OF_KUEUE
        elif f"{name.removesuffix('_count').removesuffix('_sum')}_bucket" not in TOTALS:
            yield name, total.labels, total.text, name in COUNTERS_OF_KUEUE


def page() -> str:
    """Return the page."""
    gauges = ((PREFIX + name, of.labels, of.text, of.kueue) for name, of in GAUGES.items())
    bounds = ", ".join(map(str, WAIT_BOUNDS_S))
    lines = [HEAD, *_table(gauges), MIDDLE.format(bounds=bounds), *_table(_counted())]
    return (
        "\n".join(
            [
                *lines,
                ALERTS.rstrip("\n"),
                *_alerts(),
                ALERTS_TRIED.rstrip("\n"),
                *_alerts_seen(),
                COSTS.rstrip("\n"),
                DASHBOARDS.rstrip("\n") + "\n",
                *dashboards.table(),
            ]
        )
        + "\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page())
