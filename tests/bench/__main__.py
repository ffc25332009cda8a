"""`python -m tests.bench [NAME ...]`: run benchmarks; each ends with one JSON line, and all with a table.

The JSON lines go to standard output, progress and the table to standard error.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import (
    check_requests,
    checks,
    cycle_per_head,
    end_to_end,
    flood,
    fold_rate,
    idle_latency,
    memory,
    migration,
    migration_agents,
    parsers,
    replay,
    resize,
    restart,
    scenario,
    take_over,
    telemetry,
    variants,
    verify_rate,
)

Figures = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """How to run a benchmark, which of its figures counts, and what that should be."""

    run: Callable[[], Figures]
    key: Callable[[Figures], str]
    wanted: str = ""


def _scenario(which: scenario.Scenario, wanted: str = "", timeout_s: float = 600) -> Bench:
    return Bench(lambda: end_to_end.run(which, timeout_s), _scenario_key, wanted)


def _scenario_key(f: Figures) -> str:
    return f"{f['makespan_s']} s, {f['ratio']} of ideal, scheduler {f['scheduler_cpu_us_per_job']} us/job"


def _restart_key(f: Figures) -> str:
    parts = []
    for name, ways in f["services"].items():
        parts.append(f"{name} " + ", ".join(f"{way['ready_s']} s" for way in ways.values()))
    return "without, with snapshot: " + "; ".join(parts)


def _replay_key(f: Figures) -> str:
    asked = f["commands"]
    parts = [f"{name} {asked[name]['wall_s']} s" for name in ("state, middle", "state, end", "verify", "why")]
    parts += [f"{name}: {figures['failed']}" for name, figures in asked.items() if "failed" in figures]
    return f"{', '.join(parts)}, what-if {f['what_if_times_faster']} times faster"


BENCHES: dict[str, Bench] = {
    "smoke": _scenario(scenario.SMOKE, timeout_s=60),
    "baseline": _scenario(scenario.BASELINE, "1.15 of the ideal, scheduler under 200 us/job"),
    "large-scale": _scenario(scenario.LARGE_SCALE, "under 20 s, scheduler under 200 us/job"),
    "check-requests": Bench(
        check_requests.run,
        lambda f: f"{f['requests']} requests: first {f['first_s']} s, last {f['last_s']} s after the start",
    ),
    "checks": Bench(
        checks.run,
        lambda f: (
            f"{f['workloads_per_s']} workloads/s through two checks, "
            f"service {f['cpu_us_per_workload']['admission_check']} us/workload"
        ),
    ),
    "cycle-per-head": Bench(
        cycle_per_head.run,
        lambda f: (
            f"100,000 pending to 100: {f['ratio_distinct']} (distinct), {f['ratio_identical']} (identical)"
        ),
        "flat: about 1",
    ),
    "idle-latency": Bench(idle_latency.run, lambda f: f"p50 {f['p50_ms']} ms, p99 {f['p99_ms']} ms"),
    "resize": Bench(
        resize.run,
        lambda f: (
            f"{f['resizes_per_s']}/s; at {f['rate_per_s']}/s up p50 {f['paced_up_p50_ms']} ms, "
            f"p99 {f['paced_up_p99_ms']} ms"
        ),
    ),
    "take-over": Bench(take_over.run, lambda f: f"p50 {f['p50_s']} s, max {f['max_s']} s", "under 2 s"),
    "fold-rate": Bench(
        fold_rate.run,
        lambda f: ", ".join(f"{name} {s['events_per_s']}/s" for name, s in f["services"].items()),
    ),
    "verify-rate": Bench(verify_rate.run, verify_rate.key, "fold and verify at 100,000 events/s per decider"),
    "restart": Bench(restart.run, _restart_key),
    "migration": Bench(
        migration.run,
        lambda f: (
            f"freed capacity to running: p50 {f['p50_ms']} ms, p99 {f['p99_ms']} ms "
            f"(told to stop after {f['to_stop_p50_ms']} ms)"
        ),
    ),
    "migration-agents": Bench(
        migration_agents.run,
        lambda f: f"a process ends to the moved one begun: p50 {f['p50_ms']} ms, p99 {f['p99_ms']} ms",
    ),
    "flood": Bench(flood.run, flood.key, "reports, and other publishers, within 100 ms at p99"),
    "memory": Bench(memory.run, memory.key, "api under 1,000 B, what decides nothing of the past 0 B"),
    "telemetry": Bench(telemetry.run, telemetry.key, "under 1.05"),
    "telemetry-parts": Bench(lambda: telemetry.run(ways=tuple(telemetry.WAYS)), telemetry.key),
    "parsers": Bench(parsers.run, parsers.key, "none"),
    "variants": Bench(variants.run, variants.key, "2.5"),
    "replay": Bench(
        lambda: replay.run(show=lambda line: print(line, file=sys.stderr, flush=True)),
        _replay_key,
        "states under 2 s, what-if 50 times faster than what it covers",
    ),
}
"""By name, in the order in which they run."""


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    rows: list[tuple[str, str, str]] = []
    failed = 0
    for name in names or list(BENCHES):
        bench = BENCHES[name]
        print(f"# {name} ...", file=sys.stderr, flush=True)
        load = os.getloadavg()[0]
        try:
            figures = bench.run()
        except Exception:
            traceback.print_exc()
            failed += 1
            rows.append((name, "FAILED", bench.wanted))
            continue
        # What else the machine did: figures of a busy one are no better than that.
        figures |= {"load_before": round(load, 2), "load_after": round(os.getloadavg()[0], 2)}
        print(json.dumps(figures), flush=True)
        rows.append((name, bench.key(figures), bench.wanted))
    _table([("benchmark", "measured", "wanted"), *rows])
    return 1 if failed else 0


def _table(rows: list[tuple[str, str, str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    print(file=sys.stderr)
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(line.rstrip(), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
