"""Differences between two states of a cell: per kind, and what happened to whom.

found = differences(cell_at(source, 20).state, cell_at(source, 40).state)
found["evicted"]                    # [{"workload": ..., "times": {"Preempted": 1}}]
found["jobs"]["changed"]            # {"default/train": {"phase": {"before": "Running", "after": "Queued"}}}

It costs as much as has changed, and objects are described when somebody reads them: of a week that is all of
the cell, of which a page shows little.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from sluice.core.views import JobView, WorkloadView
from sluice.core.views.present.job import current
from sluice.core.views.present.workload import check_states
from sluice.core.workload.charges import counts
from sluice.events.base import WorkloadKey
from sluice.log.cell import CellState

from . import changed_rows as changed
from .changed_rows import Scope
from .describe import SECTIONS, evictions_plain, migrations_plain

COMPARED = (
    "jobs",
    "workloads",
    "slices",
    "variants",
    "checks",
    "clusterQueues",
    "cohorts",
    "presence",
    "configuration",
)
"""Sections of a picture that are compared; what is left out follows from these."""


class Described(Mapping[str, Any]):
    """Objects by key, each described when it is read; one of which nothing is said counts as none.

    `at_most`: how many there are if something is said of all of them.
    """

    def __init__(self, keys: Iterable[str], describe: Callable[[str], Any]) -> None:
        self._keys = list(keys)
        self._describe = describe
        self._known: dict[str, Any] = {}
        self.at_most = len(self._keys)

    def __getitem__(self, key: str) -> Any:
        if key not in self._known:
            self._known[key] = self._describe(key)
        found = self._known[key]
        if not found:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[str]:
        return (key for key in self._keys if key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return any(True for _ in self)


STEPS = changed.STEPS + 6 + len(COMPARED)
"""What the progress of `differences` counts to."""


def differences(
    before: CellState, after: CellState, progress: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Return what was admitted, evicted, migrated, resized and so on, then what changed per section."""
    differ = changed.scope(before, after, progress)
    old_ones, new_ones = before.view.workloads, after.view.workloads
    workloads = [(k, old_ones.get(k), new_ones.get(k)) for k in map(WorkloadKey, differ.workloads)]
    # What befalls a variant befalls its parent; it is listed with the workloads that changed.
    plain = [(key, old, new) for key, old, new in workloads if new is not None and not new.variant]
    works: dict[str, Callable[[], Any]] = {
        "admitted": lambda: [
            k for k, old, new in plain if _again(old.admitted_at if old else None, new.admitted_at)
        ],
        "evicted": lambda: list(_evicted(plain)),
        "migrated": lambda: list(_migrated(plain)),
        "resized": lambda: list(_resized(before, after, differ.jobs)),
        "finished": lambda: [
            k for k, old, new in plain if _again(old.finished_at if old else None, new.finished_at)
        ],
        "checksChanged": lambda: list(_checks(workloads)),
        **{name: partial(_compared, name, before, after, differ) for name in COMPARED},
    }
    found = {}
    for step, (name, work) in enumerate(works.items(), changed.STEPS + 1):
        found[name] = work()
        progress(step)
    return found


def _compared(name: str, before: CellState, after: CellState, differ: Scope) -> dict[str, Described]:
    return section(name, before, after, _keys(name, before, after, differ))


def whole(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return differences with all objects described, as plain data."""
    return {k: whole(v) if isinstance(v, Mapping) else v for k, v in found.items()}


def _keys(name: str, before: CellState, after: CellState, differ: Scope) -> list[str]:
    match name:
        case "workloads" | "variants":
            return list(differ.workloads)
        case "jobs":
            return [*differ.jobs, *dict.fromkeys([*before.refused, *after.refused])]
        case "slices":
            return list(differ.jobs)
        case "clusterQueues":
            return list(differ.cluster_queues)
    of = SECTIONS[name]
    return list(dict.fromkeys([*of.keys(before), *of.keys(after)]))


def section(name: str, before: CellState, after: CellState, keys: Iterable[str]) -> dict[str, Described]:
    """Return what came and went, as it was, and for each key that stayed which of its fields changed."""
    has, one = SECTIONS[name].has, SECTIONS[name].one
    came: list[str] = []
    gone: list[str] = []
    stayed: list[str] = []
    for key in keys:
        was, is_ = has(before, key), has(after, key)
        if was or is_:
            (stayed if was and is_ else came if is_ else gone).append(key)

    def changed(key: str) -> dict[str, Any]:
        old, new = one(before, key), one(after, key)
        return {} if old == new else dict(changes("", old, new))

    return {
        "created": Described(came, lambda key: one(after, key)),
        "gone": Described(gone, lambda key: one(before, key)),
        "changed": Described(stayed, changed),
    }


def changes(path: str, before: Any, after: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (path, before and after) of each value that differs; members of lists by name or number."""
    before, after = _named(before), _named(after)
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(k for k in after if k not in before)]:
            if before.get(key) != after.get(key):
                yield from changes(f"{path}.{key}" if path else key, before.get(key), after.get(key))
    else:
        yield path, {"before": before, "after": after}


def _named(value: Any) -> Any:
    if not isinstance(value, list) or not value or not all(isinstance(v, dict) for v in value):
        return value
    if all("name" in member for member in value):
        return {member["name"]: {k: v for k, v in member.items() if k != "name"} for member in value}
    return {str(number): member for number, member in enumerate(value)}


Pair = tuple[str, WorkloadView | None, WorkloadView]
"""A workload before and after; None: it was not there."""


def _again(before: int | None, after: int | None) -> bool:
    return after is not None and before != after


def _evicted(pairs: Iterable[Pair]) -> Iterator[dict[str, Any]]:
    for key, old, new in pairs:
        if new.evictions:
            had = {} if old is None else evictions_plain(old)
            more = {
                why: n - had.get(why, 0) for why, n in evictions_plain(new).items() if n > had.get(why, 0)
            }
            if more:
                job = new.record.job
                yield {"workload": key, "job": "" if job is None else job.key, "times": more}


def _migrated(pairs: Iterable[Pair]) -> Iterator[dict[str, Any]]:
    for key, old, new in pairs:
        if new.migrations:
            had = migrations_plain(old) if old is not None else []
            # One that was under way at first has its target now.
            known = [one for one in had if one["to"] is not None]
            for one in migrations_plain(new):
                if one not in known:
                    yield {"workload": key, **one}


def _resized(before: CellState, after: CellState, keys: Iterable[str]) -> Iterator[dict[str, Any]]:
    for key in keys:
        old: JobView | None = before.view.jobs.get(key)  # type: ignore[call-overload]
        new: JobView | None = after.view.jobs.get(key)  # type: ignore[call-overload]
        if old is not None and new is not None:
            had, has = (counts(current(job).record.pod_sets) for job in (old, new))
            if had and has and had != has:
                yield {"job": key, "before": had, "after": has}


def _checks(
    pairs: Iterable[tuple[str, WorkloadView | None, WorkloadView | None]],
) -> Iterator[dict[str, Any]]:
    for key, old, new in pairs:
        if new is None:
            continue
        had = {} if old is None else {said.name: said.state for said in check_states(old)}
        has = {said.name: said.state for said in check_states(new)}
        for check in [*has, *(c for c in had if c not in has)]:
            if had.get(check) != has.get(check):
                yield {
                    "workload": key,
                    "check": check,
                    "before": had.get(check),
                    "after": has.get(check),
                }


__all__ = ["STEPS", "whole"]
