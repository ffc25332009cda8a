"""Metrics: what they count is what stands in the log, whoever folds it, and from wherever."""

from collections import Counter
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from sluice.core.preemption.targets import RULES
from sluice.core.views import reasons_of, why_pending
from sluice.core.views.totals import TOTALS, WAIT_BOUNDS_S
from sluice.events.codec import decode_commit
from sluice.events.scheduler import Admitted, Preempted, QuotaReserved
from sluice.events.slices import WorkloadFinished, WorkloadPodsReady
from sluice.events.variants import ParentAdmitted
from sluice.log.contract import Entry
from sluice.protocol.subjects import COMMITS
from sluice.readmodel import snapshot
from sluice.readmodel.metrics import COUNTERS_OF_KUEUE, GAUGES, CellMetrics, gauges
from sluice.readmodel.objects import keys, render
from sluice.readmodel.world import World
from sluice.telemetry.http import prometheus
from tests.bench.recorded import Recorder
from tests.bench.scenario import BASELINE
from tests.simulation.run import Run, quiet

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(scope="module")
def entries() -> list[Entry]:
    found: list[Entry] = []
    Recorder(found.append, BASELINE).play(1500)
    return found


@pytest.fixture(scope="module")
def racing() -> list[Entry]:
    """A simulated history with variants, checks, slices and deletions, written as JetStream holds it."""
    quiet()
    seed = next(
        seed for seed in range(100, 200) if (run := Run(seed, 900)) and run.play() and run.cell.log.encoded
    )
    run = Run(seed, 900)
    run.play()
    return run.cell.log.entries


def folded(entries: list[Entry]) -> World:
    world = World()
    world.fold(entries)
    return world


def page(world: World, **options: Any) -> Samples:
    """Return what Prometheus reads of the page."""
    text = prometheus(CellMetrics(lambda: world, "1", **options)).body.decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of(samples: Samples, name: str) -> float:
    return sum(value for (sample, _), value in samples.items() if sample == name)


def events_of(entries: list[Entry]) -> list[Any]:
    return [
        event
        for entry in entries
        if entry.suffix in COMMITS
        for step in decode_commit(entry.payload, entry.suffix, entry.seq).steps
        for event in step.events
    ]


OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
"""As Prometheus asks."""


def exemplars(world: World, **options: Any) -> list[Any]:
    """Return the samples of buckets that have an exemplar."""
    found = prometheus(CellMetrics(lambda: world, "1", **options), OPENMETRICS)
    assert found.kind.startswith("application/openmetrics-text")
    return [
        sample
        for family in openmetrics(found.body.decode())
        for sample in family.samples
        if sample.exemplar is not None
    ]


_ENDS = {
    "sluice_quota_reserved_wait_time_seconds_bucket": (QuotaReserved,),
    "sluice_admission_checks_wait_time_seconds_bucket": (Admitted,),
    "sluice_admission_wait_time_seconds_bucket": (Admitted, ParentAdmitted),
    "sluice_admitted_until_ready_wait_time_seconds_bucket": (WorkloadPodsReady,),
    "sluice_execution_time_seconds_bucket": (WorkloadFinished,),
}


@pytest.mark.parametrize("log", ["entries", "racing"])
def test_an_exemplar_leads_to_the_event_with_which_a_time_ended(
    log: str, request: pytest.FixtureRequest
) -> None:
    """The value is one of its bucket, and the sequence that of a commit with such an event."""
    every = request.getfixturevalue(log)
    found = exemplars(folded(every))
    assert {sample.name for sample in found} <= set(_ENDS)
    assert len({sample.name for sample in found}) >= 3
    for sample in found:
        at = next(entry for entry in every if str(entry.seq) == sample.exemplar.labels["sequence"])
        assert any(isinstance(event, _ENDS[sample.name]) for event in events_of([at]))
        bounds = (0, *WAIT_BOUNDS_S, float("inf"))
        own = bounds.index(float(sample.labels["le"]))
        assert bounds[own - 1] <= sample.exemplar.value <= bounds[own]
        # The times of decisions: no later than the server's when it stored them, which steps can be ahead of.
        assert sample.exemplar.timestamp is not None


@pytest.mark.parametrize("log", ["entries", "racing"])
def test_both_formats_say_the_same_numbers(log: str, request: pytest.FixtureRequest) -> None:
    world = folded(request.getfixturevalue(log))
    said = prometheus(CellMetrics(lambda: world, "1", kueue_names=True), OPENMETRICS).body.decode()
    assert said.endswith("# EOF\n")
    other = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in openmetrics(said)
        for sample in family.samples
    }
    assert other == page(world, kueue_names=True)
    mine, theirs = (
        [each for each in exemplars(world, kueue_names=True) if each.name.startswith(prefix)]
        for prefix in ("sluice_", "kueue_")
    )
    assert [each.exemplar for each in mine] == [each.exemplar for each in theirs]
    assert mine


@pytest.mark.parametrize("part", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("log", ["entries", "racing"])
def test_a_replica_that_begins_with_a_snapshot_has_the_same(
    log: str, part: float, request: pytest.FixtureRequest
) -> None:
    every = request.getfixturevalue(log)
    cut = int(len(every) * part)
    begun = folded(every[:cut])
    again = snapshot.load(snapshot.dump(begun), begun.seq, begun.at)
    again.fold(every[cut:])
    assert page(again) == page(folded(every))
    assert exemplars(again) == exemplars(folded(every))


def test_counters_count_what_stands_in_the_log(entries: list[Entry]) -> None:
    samples, events = page(folded(entries)), events_of(entries)
    preempted = Counter(
        (each.preemptor_path.rpartition("/")[2], each.rule) for each in events if isinstance(each, Preempted)
    )
    assert {
        (dict(labels)["preempting_cluster_queue"], dict(labels)["reason"]): value
        for (name, labels), value in samples.items()
        if name == "sluice_preempted_workloads_total" and value
    } == preempted
    assert preempted
    reserved = sum(isinstance(each, QuotaReserved) for each in events)
    assert of(samples, "sluice_quota_reserved_workloads_total") == reserved > 0
    assert of(samples, "sluice_quota_reserved_wait_time_seconds_count") == reserved
    finished = sum(isinstance(each, WorkloadFinished) for each in events)
    assert of(samples, "sluice_finished_workloads_total") == finished > 0
    assert of(samples, "sluice_execution_time_seconds_count") == finished


def test_counters_of_a_queue_begin_at_zero(entries: list[Entry]) -> None:
    """The first event of a series that begins with it would be seen by no rate, and by no alert."""
    world = World()
    world.fold(entries[: next(n for n, entry in enumerate(entries) if entry.suffix == "scheduler")])
    queues, samples = keys(world, "ClusterQueue"), page(world)
    assert queues
    for name in queues:
        for rule in RULES:
            labels = (("preempting_cluster_queue", name), ("reason", rule))
            assert samples["sluice_preempted_workloads_total", labels] == 0
        assert samples["sluice_migrations_total", (("cluster_queue", name),)] == 0
        assert samples["sluice_admitted_workloads_total", (("cluster_queue", name),)] == 0


@pytest.mark.parametrize("log", ["entries", "racing"])
def test_gauges_say_what_objects_say(log: str, request: pytest.FixtureRequest) -> None:
    """At every tenth of the log: counts and usage of each queue are those of its status."""
    every = request.getfixturevalue(log)
    world, done = World(), 0
    for tenth in range(1, 11):
        end = len(every) * tenth // 10
        world.fold(every[done:end])
        done = end
        found = {(name, labels): number for name, labels, number in gauges(world)}
        for name in keys(world, "ClusterQueue"):
            shown = render(world, "ClusterQueue", name)
            assert shown is not None
            status = shown["status"]
            assert found["reserving_active_workloads", (name,)] == status["reservingWorkloads"]
            assert found["admitted_active_workloads", (name,)] == status["admittedWorkloads"]
            for flavor in status["flavorsUsage"]:
                for each in flavor["resources"]:
                    if each["name"] == "cpu":
                        cohort = shown["spec"].get("cohortName", "")
                        used = found["cluster_queue_resource_usage", (cohort, name, flavor["name"], "cpu")]
                        assert used == _cores(each["total"])


def _cores(text: str) -> float:
    return float(text.removesuffix("m")) / 1000 if text.endswith("m") else float(text)


@pytest.mark.parametrize("log", ["entries", "racing"])
def test_reasons_of_many_are_those_of_each(log: str, request: pytest.FixtureRequest) -> None:
    """At every twentieth of the log: those that are looked at together wait for the same."""
    every = request.getfixturevalue(log)
    world, done, seen = World(), 0, Counter[str]()
    for part in range(1, 21):
        end = len(every) * part // 20
        world.fold(every[done:end])
        done = end
        for local in world.view.local_queues.values():
            workloads = [world.view.workloads[key] for key in local.pending]
            found = list(reasons_of(world.view, workloads))
            assert found == [why_pending(world.view, workload)[0] for workload in workloads]
            seen.update(found)
    assert len(seen) > 1


def test_series_are_bounded(racing: list[Entry]) -> None:
    """No label names a job or a workload, so jobs that come and go leave no series behind."""
    names = {
        each.workload.name for each in events_of(racing) if hasattr(getattr(each, "workload", None), "name")
    }
    for _, labels in page(folded(racing), kueue_names=True):
        assert not names.intersection(value for _, value in labels)


def test_names_of_kueue_are_there_on_request(entries: list[Entry]) -> None:
    world = folded(entries)
    plain, both = page(world), page(world, kueue_names=True)
    assert not any(name.startswith("kueue_") for name, _ in plain)
    renamed = {
        (name.removeprefix("kueue_"), labels): value
        for (name, labels), value in both.items()
        if name.startswith("kueue_")
    }
    assert renamed
    assert all(plain[f"sluice_{name}", labels] == value for (name, labels), value in renamed.items())
    wanted = {name for name, gauge in GAUGES.items() if gauge.kueue}
    assert wanted >= {"pending_workloads", "cluster_queue_resource_usage", "cohort_weighted_share"}
    assert {name.removesuffix("_total") for name in COUNTERS_OF_KUEUE} <= {
        name.removesuffix("_bucket").removesuffix("_total") for name in TOTALS
    }


def test_a_page_costs_a_twentieth_of_the_time_at_most(entries: list[Entry]) -> None:
    """However often it is asked for: what took a second is told for twenty, of the message that it says."""
    world, now = World(), [0.0]

    def clock() -> float:
        now[0] += 1.0  # which is how long it takes, as the clock is looked at before and after
        return now[0]

    numbers = CellMetrics(lambda: world, "1", clock=clock)

    def told() -> float:
        families = {family.name: family for family in numbers.collect()}
        return float(families["sluice_folded_upto"].samples[0].value)

    world.fold(entries[:50])
    assert told() == world.seq  # worked out from 1 to 2
    world.fold(entries[50:60])
    before = told()
    assert before < world.seq
    while now[0] < 21:
        assert told() == before
    assert told() == world.seq
