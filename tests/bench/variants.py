"""What concurrent admission costs end to end: the baseline scenario on queues of three flavors.

Runs it without variants, then with each migration mode, on fresh cells; compares the CPU of all services.
"""

from dataclasses import replace
from typing import Any

from . import end_to_end
from .cell import SERVICES
from .scenario import BASELINE, Scenario

FLAVORS = ("reservation", "on-demand", "spot")
MODES = ("", "RetainFirstAdmission", "TryPreferredFlavors")
KEPT = ("makespan_s", "preemptions", "run_time_lost_s", "admissions_per_s", "cpu_s", "log_mb")


def run(scenario: Scenario = BASELINE, timeout_s: float = 600) -> dict[str, Any]:
    """Return the figures of each run, and the CPU per job relative to the one without variants."""
    runs: dict[str, dict[str, Any]] = {}
    for mode in MODES:
        one = replace(scenario, flavors=FLAVORS, policy=mode)
        figures: dict[str, Any] = dict(end_to_end.run(one, timeout_s))
        services = sum(figures["cpu_s"][name] for name in SERVICES)
        runs[mode or "off"] = {name: figures[name] for name in KEPT} | {
            "services_cpu_us_per_job": round(services / scenario.jobs * 1e6),
            "stops_per_job": round(figures["preemptions"] / scenario.jobs, 2),
        }
    base = runs["off"]["services_cpu_us_per_job"]
    ratios = {
        mode: round(one["services_cpu_us_per_job"] / base, 2) for mode, one in runs.items() if mode != "off"
    }
    return {"bench": f"variants-{scenario.name}", "jobs": scenario.jobs, "runs": runs, "ratio": ratios}


def key(figures: dict[str, Any]) -> str:
    parts = ", ".join(f"{mode} {ratio}" for mode, ratio in figures["ratio"].items())
    return f"{parts} times the CPU of one workload per job"
