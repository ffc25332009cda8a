"""Metrics: what the runners count, as OpenTelemetry instruments named `sluice_*`.

Instruments are observed, not recorded: a runner keeps plain numbers, which are read when an exporter
asks, so metrics cost nothing while nobody does.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from opentelemetry.metrics import CallbackOptions, Meter, Observation

Series = tuple[str, Mapping[str, str], float]
"""Metric, labels, value."""


class Counted(Protocol):
    """The numbers of one runner."""

    writer: str
    role: str
    folded: int
    steps: int
    events: int
    commits: int
    takeovers: int
    fenced: int
    snapshots: int
    upto: int
    lag: int
    commit_seconds: float
    commit_counts: list[int]


COUNTERS: Sequence[tuple[str, str, str, Callable[[Counted], float]]] = (
    ("sluice_events_folded", "1", "Events folded into the state, own ones included", lambda m: m.folded),
    ("sluice_steps", "1", "Decisions made", lambda m: m.steps),
    ("sluice_events_committed", "1", "Events written to the log", lambda m: m.events),
    ("sluice_commits", "1", "Commits acknowledged", lambda m: m.commits),
    ("sluice_commit_duration", "s", "Sum of the times to acknowledgement", lambda m: m.commit_seconds),
    ("sluice_takeovers", "1", "Times this replica became the leader", lambda m: m.takeovers),
    ("sluice_fenced", "1", "Times this replica was replaced while leading", lambda m: m.fenced),
    ("sluice_snapshots", "1", "Snapshots taken", lambda m: m.snapshots),
)

GAUGES: Sequence[tuple[str, str, str, Callable[[Counted], float]]] = (
    ("sluice_leader", "1", "1 on the leader, else 0", lambda m: 1 if m.role == "leader" else 0),
    ("sluice_folded_upto", "1", "Log sequence of the last input folded", lambda m: m.upto),
    ("sluice_fold_lag", "1", "Log entries not folded yet", lambda m: m.lag),
)


class RunnerInstruments:
    """The instruments of all runners in the process, told apart by `writer`.

    *bounds*: upper bounds of the histogram of commit latencies, in seconds.
    """

    def __init__(self, meter: Meter, bounds: Sequence[float]) -> None:
        self._runners: list[Counted] = []
        self._bounds = (*(f"{bound:g}" for bound in bounds), "+Inf")
        for name, unit, text, read in COUNTERS:
            meter.create_observable_counter(name, [self._observing(read)], unit=unit, description=text)
        for name, unit, text, read in GAUGES:
            meter.create_observable_gauge(name, [self._observing(read)], unit=unit, description=text)
        meter.create_observable_counter(
            "sluice_commit_duration_bucket",
            [self._buckets],
            unit="1",
            description="Commits acknowledged within `le` seconds",
        )

    def add(self, runner: Counted) -> None:
        self._runners.append(runner)

    def _observing(
        self, read: Callable[[Counted], float]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            return [Observation(read(runner), {"writer": runner.writer}) for runner in self._runners]

        return observe

    def _buckets(self, _: CallbackOptions) -> Iterable[Observation]:
        for runner in self._runners:
            total = 0
            for bound, count in zip(self._bounds, runner.commit_counts, strict=False):
                total += count
                yield Observation(total, {"writer": runner.writer, "le": bound})


def observe_totals(
    meter: Meter, totals: Callable[[], Iterable[Series]], metrics: Sequence[tuple[str, str, str]]
) -> None:
    """Make an instrument for each of *metrics* (name, unit, text), which shows its part of *totals*.

    Instruments are asked one after the other. The totals are asked for once for all of them: when one is
    asked that has been before.
    """
    parts: dict[str, list[Observation]] = {}

    def observing(name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            if name not in parts:
                parts.clear()
                parts.update({one: [] for one, _, _ in metrics})
                for metric, labels, value in totals():
                    if metric in parts:
                        parts[metric].append(Observation(value, labels))
            return parts.pop(name)

        return observe

    for name, unit, text in metrics:
        meter.create_observable_counter(name, [observing(name)], unit=unit, description=text)
