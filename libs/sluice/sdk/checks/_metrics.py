"""Counters of a controller, as plain numbers: read when somebody asks (health, Prometheus, OpenTelemetry)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opentelemetry.metrics import CallbackOptions, Meter, Observation

if TYPE_CHECKING:
    from prometheus_client import Metric

STATES = ("Ready", "Retry", "Rejected", "Pending")


@dataclass(slots=True)
class Numbers:
    """Counters grow; `active`, `requests`, `running` and `queued` are what is now."""

    controller: str = ""
    active: int = 0
    requests: int = 0
    running: int = 0
    queued: int = 0
    calls: int = 0
    call_seconds: float = 0.0
    failures: int = 0
    timeouts: int = 0
    cancelled: int = 0
    unreadable: int = 0
    takeovers: int = 0
    repeated: int = 0
    verdicts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATES, 0))

    def collect(self) -> Iterator["Metric"]:
        """Yield them for Prometheus."""
        # Only here: it takes 50 ms to import, and most controllers are not asked.
        from prometheus_client import Metric

        labels = {"controller": self.controller}
        for kind, name, text, read in METRICS:
            metric = Metric(name, text, kind)
            metric.add_sample(f"{name}_total" if kind == "counter" else name, labels, read(self))
            yield metric
        verdicts = Metric(*VERDICTS, "counter")
        for state, count in self.verdicts.items():
            verdicts.add_sample(f"{VERDICTS[0]}_total", {**labels, "state": state}, count)
        yield verdicts


_Read = Callable[[Numbers], float]

METRICS: Sequence[tuple[str, str, str, _Read]] = (
    ("gauge", "sluice_check_active", "1 on the active replica, else 0", lambda n: n.active),
    ("gauge", "sluice_check_requests", "Requests that are open", lambda n: n.requests),
    ("gauge", "sluice_check_running", "Functions at work", lambda n: n.running),
    ("gauge", "sluice_check_queued", "Requests that wait for a free place", lambda n: n.queued),
    ("counter", "sluice_check_calls", "Calls of check functions and watches", lambda n: n.calls),
    ("counter", "sluice_check_call_seconds", "Sum of the calls' times", lambda n: n.call_seconds),
    ("counter", "sluice_check_failures", "Calls that raised or returned no verdict", lambda n: n.failures),
    ("counter", "sluice_check_timeouts", "Calls that took too long", lambda n: n.timeouts),
    (
        "counter",
        "sluice_check_cancelled",
        "Calls ended as the request was withdrawn",
        lambda n: n.cancelled,
    ),
    ("counter", "sluice_check_unreadable", "Requests that could not be decoded", lambda n: n.unreadable),
    ("counter", "sluice_check_takeovers", "Times this replica became the active one", lambda n: n.takeovers),
    ("counter", "sluice_check_repeated", "Verdicts that the log had already", lambda n: n.repeated),
)
VERDICTS = ("sluice_check_verdicts", "Verdicts published")


def instrument(meter: Meter, numbers: Numbers) -> None:
    """Make the numbers OpenTelemetry instruments: observed, so that they cost nothing while nobody asks."""
    labels = {"controller": numbers.controller}

    def observing(read: _Read) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _: [Observation(read(numbers), labels)]

    def by_state(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(count, {**labels, "state": state}) for state, count in numbers.verdicts.items()]

    kinds = {"gauge": meter.create_observable_gauge, "counter": meter.create_observable_counter}
    for kind, name, text, read in METRICS:
        unit = "s" if name.endswith("seconds") else "1"
        kinds[kind](name, [observing(read)], unit=unit, description=text)
    meter.create_observable_counter(VERDICTS[0], [by_state], unit="1", description=VERDICTS[1])
