"""The list of jobs: filtered, sorted, gathered. Only what is shown is rendered whole."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from sluice.core.views import WorkloadView
from sluice.core.views.present.job import Phase, current, phase_of
from sluice.core.views.present.phase import WorkloadPhase
from sluice.events.base import JobKey
from sluice.readmodel.objects import keys, render
from sluice.readmodel.selector import Selector
from sluice.readmodel.world import World

from .answers import JobGroup
from .rows import job_row

Plain = dict[str, Any]


def phase_now(world: World, key: str) -> str:
    """Return a job's phase without rendering it; of jobs that have ended it is remembered."""
    return remembered(world, "Job", key, lambda: _phase(world, key))


def remembered(world: World, kind: str, key: str, phase: Callable[[], str]) -> str:
    version = world.changes.version(kind, key)
    known = world.ended.get((kind, key))
    if known is not None and known[0] == version:
        return known[1]
    found = phase()
    # Without a version, as behind a base, nobody would hear of a change.
    if version and found in _ENDED:
        world.ended[kind, key] = (version, found)
    return found


class Counted:
    """The phases of all objects of a kind; counted on with those that have changed since the last time."""

    def __init__(self) -> None:
        self.phases: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self._upto = 0

    def update(self, world: World, kind: str, phase: Callable[[str], str]) -> None:
        changes, known = world.changes, keys(world, kind)
        if self._upto and changes.forgotten <= self._upto <= world.seq:
            for gone in changes.gone_since(kind, self._upto):
                self._forget(gone.key)
            for key in changes.since(kind, self._upto):
                self._forget(key)
                self._note(key, phase(key))
        if not self._upto or len(self.phases) != len(list(known)):
            # The first time, or some have gone of which nobody heard, as of those from behind a base.
            self.phases.clear()
            self.counts.clear()
            for key in known:
                self._note(key, phase(key))
        self._upto = world.seq

    def _forget(self, key: str) -> None:
        before = self.phases.pop(key, None)
        if before is not None:
            self.counts[before] -= 1

    def _note(self, key: str, phase: str) -> None:
        self.phases[key] = phase
        self.counts[phase] += 1


def counted(world: World, kind: str, phase: Callable[[str], str]) -> Counted:
    """Return the phases of all objects of a kind, as they are now."""
    found: Counted = world.counted.setdefault(kind, Counted())
    found.update(world, kind, phase)
    return found


def job_phases(world: World) -> Counted:
    return counted(world, "Job", lambda key: phase_now(world, key))


_ENDED = frozenset((Phase.SUCCEEDED.value, Phase.FAILED.value, WorkloadPhase.FINISHED.value))


def _phase(world: World, key: str) -> str:
    view, submitted = world.view.jobs.get(JobKey(key)), world.jobs.get(key)
    if view is not None and (submitted is None or not submitted.open):
        return str(phase_of(view))
    found = render(world, "Job", key)
    return "" if found is None else str(found["status"]["phase"])


SORTS: dict[str, Callable[[World, str], Any]] = {
    "name": lambda _, key: key,
    "created": lambda world, key: _created(world, key),
    "priority": lambda world, key: _current(world, key, lambda w: w.record.priority, 0),
    "phase": lambda world, key: phase_now(world, key),
    "queue": lambda world, key: _current(world, key, lambda w: w.cluster_queue_name, ""),
    "changed": lambda world, key: world.changes.version("Job", key),
    "waited": lambda world, key: _waited(world, key),
}


def _created(world: World, key: str) -> int:
    submitted = world.jobs.get(key)
    if submitted is not None:
        return submitted.created_at or submitted.latest.at
    return int(_current(world, key, lambda w: w.record.created_at, 0))


def _waited(world: World, key: str) -> int:
    """Return how long a job waited, or has waited if it still does; microseconds."""
    view = world.view.jobs.get(JobKey(key))
    if view is None:
        return 0
    found = current(view)
    until = found.admitted_at or found.finished_at or world.at
    return max(0, until - _created(world, key) - view.ran_us)


def _current(world: World, key: str, of: Callable[[WorkloadView], Any], otherwise: Any) -> Any:
    view = world.view.jobs.get(JobKey(key))
    return otherwise if view is None else of(current(view))


def _labels(world: World, key: str) -> dict[str, str]:
    submitted = world.jobs.get(key)
    return {} if submitted is None else submitted.shown.head.metadata.labels


def jobs_page(
    world: World,
    *,
    namespace: str,
    queue: str,
    phases: frozenset[str],
    label: str,
    search: str,
    sort: str,
    group: str,
    start: int,
    limit: int,
) -> Plain:
    """Return a page of jobs; only its jobs are rendered whole."""
    selector = Selector(label, "")
    chosen: list[str] = []
    counts: Counter[str] = Counter()
    known = job_phases(world).phases
    for key in keys(world, "Job"):
        space, _, name = key.partition("/")
        if (namespace and space != namespace) or (search and search not in name):
            continue
        if queue and queue not in (
            _current(world, key, lambda w: w.cluster_queue_name, ""),
            _current(world, key, lambda w: w.record.queue_name, ""),
        ):
            continue
        if label and not selector.matches({"metadata": {"labels": _labels(world, key)}}):
            continue
        phase = known[key]
        counts[phase] += 1
        if not phases or phase in phases:
            chosen.append(key)
    by = SORTS[sort.removeprefix("-")]
    chosen.sort()
    chosen.sort(key=lambda key: by(world, key), reverse=sort.startswith("-"))
    page = [row for key in chosen[start : start + limit] if (row := job_row(world, key)) is not None]
    return {
        "items": page,
        "total": len(chosen),
        "phases": dict(sorted(counts.items())),
        "groups": _groups(world, chosen, group) if group else [],
        "continue_": str(start + limit) if start + limit < len(chosen) else "",
    }


def _groups(world: World, chosen: Iterable[str], group: str) -> list[JobGroup]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for key in chosen:
        match group:
            case "queue":
                value = str(_current(world, key, lambda w: w.cluster_queue_name, ""))
            case "namespace":
                value = key.partition("/")[0]
            case "phase":
                value = phase_now(world, key)
            case _:
                value = _labels(world, key).get(group, "")
        found[value][phase_now(world, key)] += 1
    rows = [
        JobGroup(value=v, count=sum(c.values()), phases=dict(sorted(c.items()))) for v, c in found.items()
    ]
    return sorted(rows, key=lambda row: (-row.count, row.value))
