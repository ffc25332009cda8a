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

**Exemplars.** A bucket carries the newest time that it has counted, with the sequence of the event that
ended it, for whoever asks for OpenMetrics, as Prometheus does by itself (it keeps them with
`--enable-feature=exemplar-storage`; Grafana shows them as points above the curves):

```text
sluice_admission_wait_time_seconds_bucket{{cluster_queue="research",le="40"}} 12.0 # {{sequence="48213"}} 31.7
```

`sluice log show 48213` has the event, and with it the workload; `sluice why JOB --at 48213`,
`sluice replay timeline JOB` and the console at that sequence say why it took so long.
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
every five seconds; `ONLY=telemetry-parts` has each of these alone. The aim is 1.05 of the CPU time of all
services. On 2026-11-27, on two cores that others used as well (load 4 to 18), CPU seconds of all services:

| on | before what follows | after, first round | second round |
|---|---|---|---|
| nothing | 17.0 | 15.8 | 16.0 |
| everything | 20.2 | 17.5 | 14.1 |
| metrics by OTLP | 16.4 | | |
| spans by OTLP | 18.0 | | |
| contexts | 14.3 | | |
| scrapes | 14.1 | 16.0 | 13.8 |

The same scenario took a quarter more or less a few minutes later, so 1.19 before, and 1.11 and 0.88 after, do
not tell whether the aim is met, nor how much was gained. What rises in both rounds is the api service, which
answers the scrapes: 4.1 s without, 4.6 s with scrapes alone, 4.8 s with everything. That is 1.18 times, and
0.7 s of the 16 s of all services. In microbenchmarks on the same machine:

| | before | after |
|---|---|---|
| a turn with its commit, without an exporter | 2.6 us | 2.6 us |
| the same with one, not recorded | 16 to 22 us | 8 us |
| `/metrics` of 30 queues in which 500 jobs wait | 21 ms | 23 ms |
| the same where 8,500 wait | 89 ms | 54 ms |

What was mended: commits of turns that are not recorded have no span; contexts are searched only where they
can be; those that wait and are equal in all that matters are asked once why. The api service goes through its
totals once an export, no longer once a metric; that was so in the first column, too. Of a page for 30 queues
12 ms go into its text. Scrapes each 15 s or 30 s, as is usual, cost a third or a sixth.

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
