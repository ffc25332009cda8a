"""Benchmarks of the core still run: they call inner functions, whose changes no other test would notice."""

from dataclasses import replace

import pytest

from sluice.log.runtime import gc_tuning
from tests.bench import core_cycle, core_slices, core_variants, cycle_per_head
from tests.bench.scenario import SMOKE


@pytest.fixture(autouse=True)
def _leave_the_collector_alone(monkeypatch):
    monkeypatch.setattr(gc_tuning, "tune", lambda: None)


@pytest.mark.parametrize("distinct", [True, False])
def test_cycle_per_head_counts_heads(monkeypatch, distinct):
    """Each round admits one and looks at what comes: at least one head, and not all that wait."""
    monkeypatch.setattr(cycle_per_head, "BATCHES", 1)
    monkeypatch.setattr(cycle_per_head, "ROUNDS", 5)
    found = cycle_per_head.measure(20, distinct=distinct)

    assert 0 < found["heads_per_cycle"] < 3
    assert found["cpu_us_per_head"] > 0


def test_core_cycle_plays_all_jobs():
    """Every job of the scenario ends, and some were preempted on the way."""
    found = core_cycle.whole(SMOKE, tick_us=1000)

    assert found["finished"] == found["workloads"] == SMOKE.jobs
    assert found["preempted"] > 0
    assert core_cycle.growing(5, distinct=True)["cpu_us_per_round"] > 0


def test_core_slices_runs_jobs_to_their_end():
    """All phases of a job's life are measured."""
    found = core_slices.run(20)

    assert found.keys() == {"submit", "admit", "dispatch", "finish"}


def test_core_variants_runs_families_to_their_end():
    """All jobs of a scenario with concurrent admission end."""
    small = replace(SMOKE, cohorts=1, flavors=("a", "b"), policy="TryPreferredFlavors")
    cpu, migrations = core_variants.virtual(small)

    assert min(cpu.values()) > 0
    assert migrations >= 0
