"""Every benchmark runs, as short as can be: they call inner functions whose changes no other test notices.

The figures of such runs mean nothing. Services are forks, and commands are run in this process, since most
of the time would go into starting interpreters.
"""

import contextlib
import io
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog

from sluice.log.runtime import gc_tuning
from tests.support.command import sluice

from . import (
    check_requests,
    checks,
    console,
    core_cycle,
    core_slices,
    core_variants,
    cycle_per_head,
    end_to_end,
    flood,
    fold_rate,
    idle_latency,
    ingress,
    log_rates,
    memory,
    migration,
    migration_agents,
    parsers,
    quota_given_back,
    recorded_log,
    replay,
    resize,
    restart,
    take_over,
    telemetry,
    variants,
    verify_rate,
)
from .__main__ import BENCHES
from .recorded import Recorder
from .scenario import SMOKE

Figures = dict[str, Any]

HELPERS = {
    "__init__",
    "__main__",
    "cell",
    "check_controller",
    "driver",
    "long_run",
    "memory_plot",
    "messages",
    "recorded",
    "recorded_log",
    "scenario",
}
TINY = replace(SMOKE, cohorts=1, queues_per_cohort=1)
ROOMY = replace(TINY, nominal_cpu=60)
"""Each of three flavors has room for the largest job."""
EVENTS = 1_500


def _core_cycle() -> Figures:
    found = core_cycle.whole(TINY, tick_us=1000)
    assert found["finished"] == found["workloads"] == TINY.jobs
    assert core_cycle.growing(5, distinct=True)["cpu_us_per_round"]
    return found


def _core_variants() -> Figures:
    families = replace(ROOMY, flavors=("a", "b"), policy="TryPreferredFlavors")
    cpu, migrations = core_variants.virtual(families)
    again, _ = core_variants.rounds(6, {"migration": {"mode": "TryPreferredFlavors"}})
    assert min(*cpu.values(), *again.values()) > 0
    return {"migrations": migrations, **cpu}


def _log_rates() -> Figures:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        log_rates.run(500)
    return {
        line["bench"]: line
        for line in (json.loads(line) for line in said.getvalue().splitlines() if line.startswith("{"))
    }


SHORT: dict[str, Callable[[], Figures]] = {
    "check_requests": lambda: check_requests.run(3),
    "checks": lambda: checks.run(3),
    "core_cycle": _core_cycle,
    "core_slices": lambda: core_slices.run(20),
    "core_variants": _core_variants,
    "cycle_per_head": lambda: cycle_per_head.run((10, 20)),
    "end_to_end": lambda: end_to_end.run(TINY, 60),
    "flood": lambda: flood.run(20),
    "fold_rate": lambda: fold_rate.run(EVENTS),
    "idle_latency": lambda: idle_latency.run(2),
    "ingress": lambda: ingress.run(20, 1),
    "log_rates": _log_rates,
    "memory": lambda: memory.run(1_000),
    "migration": lambda: migration.run(2),
    "migration_agents": lambda: migration_agents.run(1),
    "console": lambda: console.main(["scrub", str(EVENTS)]),
    "parsers": lambda: parsers.run((100, 1_000), ("job", "selector of labels")),
    "quota_given_back": lambda: {"calls": len(quota_given_back.calls())},
    "replay": lambda: replay.run(EVENTS),
    "resize": lambda: resize.run(5),
    "restart": lambda: restart.run(EVENTS),
    "take_over": lambda: take_over.run(1),
    "telemetry": lambda: telemetry.run(TINY, 1, 60, ("off", "on", "metrics", "scrapes")),
    "variants": lambda: variants.run(ROOMY, 60),
    "verify_rate": lambda: verify_rate.run(EVENTS),
}
CONSTANTS: tuple[tuple[Any, str, Any], ...] = (
    (cycle_per_head, "BATCHES", 1),
    (cycle_per_head, "ROUNDS", 5),
    (end_to_end, "REST_S", 0.0),
    (flood, "QUIET_S", 0.5),
    (flood, "RUN_S", 0.1),
    (flood, "RUNNING", 2),
    (idle_latency, "WARM_UP", 0),
    (log_rates, "COMMITS", 20),
    (log_rates, "HOPS", 5),
    (migration, "WARM_UP", 0),
    (migration_agents, "WARM_UP", 0),
    (recorded_log, "Recorder", partial(Recorder, scenario=SMOKE)),
    (replay, "EVERY", 500),
    (replay, "BASELINE", TINY),
    (replay, "LARGE_SCALE", SMOKE),
    (resize, "RESIZES", 4),
    (resize, "PACED", 2),
    (telemetry, "SCRAPE_S", 0.2),
    (verify_rate, "LARGE_SCALE", SMOKE),
)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in CONSTANTS:
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(gc_tuning, "tune", lambda: None)
    monkeypatch.setattr(structlog, "configure", lambda **_: None)
    monkeypatch.setattr(subprocess, "run", _run_here)
    monkeypatch.setattr(replay, "ask", _ask_here)


def _run_here(command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
    """Measure as the benchmark's own child would."""
    module, *arguments = command[command.index("-m") + 1 :]
    said = (
        fold_rate.measure(arguments[0], arguments[1], int(arguments[2]))
        if module == fold_rate.__name__
        else verify_rate.main(arguments)
    )
    return subprocess.CompletedProcess(command, 0, json.dumps(said).encode())


def _ask_here(*arguments: str, limit_s: float = 0.0) -> replay.Asked:
    del limit_s
    said = sluice(*arguments)
    assert said.code == 0, said.err
    return replay.Asked(said.out, 1.0, 1.0, 1.0)


def test_every_benchmark_has_a_short_form() -> None:
    modules = {path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("test_")}
    assert modules == {*SHORT, *HELPERS}


@pytest.mark.nats
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("name", SHORT)
def test_it_comes_to_an_end(name: str) -> None:
    """With figures, of which those that count can be told."""
    figures = SHORT[name]()
    assert figures
    bench = BENCHES.get("smoke" if name == "end_to_end" else name.replace("_", "-"))
    assert bench is None or bench.key(figures)
