"""States and differences as lines for people."""

from collections.abc import Iterator
from typing import Any

from sluice.core.state import SchedulerState

from .summary import phase_of, queue_summary

SHOWN = 40


def state_lines(state: SchedulerState, seq: int, at: str) -> Iterator[str]:
    """Yield one line per queue, flavor and resource, then how many workloads are in which phase."""
    yield f"State after sequence {seq}, {at}"
    yield (
        f"{'QUEUE':<28}{'FLAVOR/RESOURCE':<24}{'NOMINAL':>9}{'USED':>9}{'FREE':>9}{'PENDING':>9}"
        f"{'ADMITTED':>10}"
    )
    for name, queue in sorted(state.world.cluster_queues.items()):
        found = queue_summary(state, queue)
        label, counts = name, f"{found['pending']:>9}{found['admitted']:>10}"
        for fr, row in found["quota"].items():
            yield f"{label:<28}{fr:<24}{row['nominal']:>9}{row['used']:>9}{row['available']:>9}{counts}"
            label = counts = ""
    phases: dict[str, int] = {}
    for workload in state.world.workloads.values():
        phase = phase_of(workload)
        phases[phase] = phases.get(phase, 0) + 1
    yield ""
    yield "Workloads: " + (", ".join(f"{n} {phase}" for phase, n in sorted(phases.items())) or "none")


def difference_lines(found: dict[str, Any], first: int, last: int) -> Iterator[str]:
    """Yield what changed between two states."""
    yield f"From {first} to {last}:"
    for mark, key in (("+", "created"), ("-", "gone")):
        yield from (f"  {mark} {name}" for name in found[key][:SHOWN])
        if len(found[key]) > SHOWN:
            yield f"  {mark} and {len(found[key]) - SHOWN} more"
    changed = list(found["changed"].items())
    for name, change in changed[:SHOWN]:
        before, after = change["before"], change["after"]
        fields = [k for k in {**before, **after} if before.get(k) != after.get(k) and k not in _VERBOSE]
        yield f"  ~ {name}: " + ", ".join(
            f"{k} {_text(before.get(k))} → {_text(after.get(k))}" for k in fields
        )
    if len(changed) > SHOWN:
        yield f"  ~ and {len(changed) - SHOWN} more"
    for name, changes in list(found["clusterQueues"].items())[:SHOWN]:
        for path, change in changes.items():
            yield f"  {name}: {path} {_text(change['before'])} → {_text(change['after'])}"
    if len(found["clusterQueues"]) > SHOWN:
        yield f"  and {len(found['clusterQueues']) - SHOWN} more queues"


_VERBOSE = ("reservedAt", "admittedAt", "message", "flavors")


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{k}={v}" for k, v in value.items())
    return str(value)
