"""What a controller counts, as plain numbers: read when somebody asks (health, Prometheus, OpenTelemetry)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from sluice.telemetry.exposition import family

STATES = ("Ready", "Retry", "Rejected", "Pending")


@dataclass(slots=True)
class Numbers:
    """Counters grow; `requests`, `running`, `waiting`, `watching` and `active` are what is now."""

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


_Read = Callable[[Numbers], float]

GAUGES: Sequence[tuple[str, str, _Read]] = (
    ("sluice_check_active", "1 on the active replica, else 0", lambda n: n.active),
    ("sluice_check_requests", "Requests that are open", lambda n: n.requests),
    ("sluice_check_running", "Functions at work", lambda n: n.running),
    ("sluice_check_queued", "Requests that wait for a free place", lambda n: n.queued),
)
COUNTERS: Sequence[tuple[str, str, _Read]] = (
    ("sluice_check_calls", "Calls of check functions and watches", lambda n: n.calls),
    ("sluice_check_call_seconds", "Sum of the calls' times", lambda n: n.call_seconds),
    ("sluice_check_failures", "Calls that raised or returned no verdict", lambda n: n.failures),
    ("sluice_check_timeouts", "Calls that took too long", lambda n: n.timeouts),
    ("sluice_check_cancelled", "Calls ended because the request was withdrawn", lambda n: n.cancelled),
    ("sluice_check_unreadable", "Requests that could not be decoded", lambda n: n.unreadable),
    ("sluice_check_takeovers", "Times this replica became the active one", lambda n: n.takeovers),
    ("sluice_check_repeated", "Verdicts that the log had already", lambda n: n.repeated),
)
VERDICTS = ("sluice_check_verdicts", "Verdicts published")


def prometheus(numbers: Numbers) -> str:
    """Return the numbers in Prometheus' text format."""
    labels = {"controller": numbers.controller}
    parts = [family(name, "gauge", text, [(labels, read(numbers))]) for name, text, read in GAUGES]
    parts += [
        family(f"{name}_total", "counter", text, [(labels, read(numbers))]) for name, text, read in COUNTERS
    ]
    by_state = [({**labels, "state": state}, float(count)) for state, count in numbers.verdicts.items()]
    return "".join(parts) + family(f"{VERDICTS[0]}_total", "counter", VERDICTS[1], by_state)


def instrument(meter: Meter, numbers: Numbers) -> None:
    """Make the numbers OpenTelemetry instruments: observed, so that they cost nothing while nobody asks."""
    labels = {"controller": numbers.controller}

    def observing(read: _Read) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _: [Observation(read(numbers), labels)]

    def by_state(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(count, {**labels, "state": state}) for state, count in numbers.verdicts.items()]

    for name, text, read in GAUGES:
        meter.create_observable_gauge(name, [observing(read)], unit="1", description=text)
    for name, text, read in COUNTERS:
        unit = "s" if name.endswith("seconds") else "1"
        meter.create_observable_counter(name, [observing(read)], unit=unit, description=text)
    meter.create_observable_counter(VERDICTS[0], [by_state], unit="1", description=VERDICTS[1])
