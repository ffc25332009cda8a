"""Consumption of workloads: quota that was theirs while they were admitted, times how long.

A fold over the log (law 1). Consumption is kept per account, that is per namespace, local queue, cluster
queue, flavor and resource, in base units times microseconds: integers, so that no order of adding and no
restart changes a digit. It counts from Admitted to the release of the quota; a reservation that waits for
its checks consumes nothing. Pods that have ended and pods scaled away consume nothing from then on.

Totals of the past can be asked for at quarters of an hour, where the periods of all of today's time zones
begin, for `KEPT_US`; a steady account costs nothing, however long it lasts.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from sluice.api import kueue
from sluice.core.workload.charges import charge, counts, gives_back, shrunk
from sluice.core.workload.variant_events import as_workload_event
from sluice.events import scheduler, slices
from sluice.events.base import Event, Micros, PodSetAssignment
from sluice.events.config import ObjectApplied, ObjectDeleted

QUARTER_US = 900 * 1_000_000
"""Totals are kept at the ends of these, counted from the epoch."""
KEPT_US = 36 * 86_400 * 1_000_000
"""How long totals of the past are kept: longer than any period of a budget."""


class Account(NamedTuple):
    """Whose consumption of what."""

    namespace: str
    local_queue: str
    cluster_queue: str
    flavor: str
    resource: str


class Mark(NamedTuple):
    """From `at` on, when `total` had been consumed, `level` was consumed per microsecond."""

    at: Micros
    total: int
    level: int


@dataclass(slots=True)
class Series:
    """One account over time. `marks`: the last change of each quarter of an hour that had one."""

    marks: list[Mark] = field(default_factory=list)

    @property
    def level(self) -> int:
        """Return what is being consumed, in base units."""
        return self.marks[-1].level if self.marks else 0

    def change(self, delta: int, at: Micros) -> None:
        """Consume so much more (less) from *at* on."""
        marks = self.marks
        if not marks:
            marks.append(Mark(at, 0, delta))
            return
        last = marks[-1]
        # Two writers' clocks may differ by a little; an account's time does not go back.
        at = max(at, last.at)
        mark = Mark(at, last.total + last.level * (at - last.at), last.level + delta)
        if last.at // QUARTER_US == at // QUARTER_US:
            marks[-1] = mark
            return
        marks.append(mark)
        stale = bisect_left(marks, at - KEPT_US, key=lambda one: one.at) - 1
        if stale > 64:
            # Seldom, so that an append stays cheap; the newest of the old ones says where the rest begins.
            del marks[:stale]

    def total(self, at: Micros) -> int:
        """Return what had been consumed by *at*: now or later, or the end of a quarter of an hour."""
        marks = self.marks
        if not marks or at >= marks[-1].at:
            number = len(marks) - 1
        else:
            number = bisect_left(marks, at, key=lambda one: one.at) - 1
        if number < 0:
            return 0
        mark = marks[number]
        return mark.total + mark.level * (at - mark.at)


@dataclass(slots=True)
class Held:
    """A workload that is not over, as far as its consumption needs."""

    namespace: str
    local_queue: str
    pods: dict[str, int]
    max_s: int | None = None
    parent: str = ""
    cluster_queue: str = ""
    assignment: tuple[PodSetAssignment, ...] = ()
    reclaimable: dict[str, int] = field(default_factory=dict)
    admitted_at: Micros | None = None
    ran_us: int = 0
    """How long it ran before it was evicted, which counts against `max_s`."""
    charge: dict[tuple[str, str], int] = field(default_factory=dict)
    """(flavor, resource) -> what it consumes at present."""
    replaces: str = ""
    """The slice whose pods it takes over, when it is admitted (WS4)."""
    began: Micros | None = None
    """Since when its job has run without a stop, in whichever slice."""

    def ends_at(self, assumed_s: int | None) -> Micros | None:
        """Return when it has run as long as it may, or is assumed to; None: nobody knows."""
        if self.admitted_at is None:
            return None
        if self.max_s is not None:
            return self.admitted_at + max(0, self.max_s * 1_000_000 - self.ran_us)
        if assumed_s is None:
            return None
        began = self.admitted_at if self.began is None else self.began
        return max(self.admitted_at, began + assumed_s * 1_000_000)


@dataclass(slots=True)
class Consumption:
    """The state; only `apply` changes it."""

    workloads: dict[str, Held] = field(default_factory=dict)
    """`namespace/name` -> all that are not over."""
    running: dict[str, Held] = field(default_factory=dict)
    """Those of them that are admitted."""
    variants: dict[str, dict[str, None]] = field(default_factory=dict)
    """Parent -> its variants, as they end with it (CA7)."""
    series: dict[Account, Series] = field(default_factory=dict)
    gives_back: bool = True
    """Do pods that have ended give their quota back?"""
    at: Micros = 0
    """The latest time seen."""

    def apply(self, event: Event, at: Micros) -> None:
        """Fold one event, decided *at*."""
        if at > self.at:
            self.at = at
        event = as_workload_event(event)
        fold = _FOLDS.get(type(event))
        if fold is not None:
            fold(self, event, at)

    def predecessor(self, held: Held) -> Held | None:
        """Return what runs of its job, and ends when *held* is admitted: the slice before, or a variant."""
        if held.replaces:
            return self.running.get(held.replaces)
        if held.parent:
            siblings = (self.running.get(key) for key in self.variants.get(held.parent, ()))
            return next((one for one in siblings if one is not None and one is not held), None)
        return None

    def charge(self, held: Held) -> dict[tuple[str, str], int]:
        """Return what it consumes when admitted: nothing of pods that have ended, if they give back."""
        return charge(held.assignment, held.pods, held.reclaimable if self.gives_back else {})

    def level(self, key: str, held: Held, at: Micros, charged: dict[tuple[str, str], int]) -> None:
        """Let a workload consume *charged* from *at* on."""
        before, held.charge = held.charge, charged
        for each in {**before, **charged}:
            delta = charged.get(each, 0) - before.get(each, 0)
            if delta:
                account = Account(held.namespace, held.local_queue, held.cluster_queue, *each)
                series = self.series.get(account)
                if series is None:
                    series = self.series[account] = Series()
                series.change(delta, at)
        if held.admitted_at is None:
            self.running.pop(key, None)
        else:
            self.running[key] = held


def _created(state: Consumption, event: slices.WorkloadCreated, at: Micros) -> None:
    record = event.workload
    _gone(state, record.key, at)
    state.workloads[record.key] = Held(
        record.namespace,
        record.queue_name,
        counts(record.pod_sets),
        record.maximum_execution_time_s,
        record.parent or "",
        replaces=record.replaces or "",
    )
    if record.parent is not None:
        state.variants.setdefault(record.parent, {})[record.key] = None


def _updated(state: Consumption, event: slices.WorkloadUpdated, at: Micros) -> None:
    held = state.workloads.get(event.workload)
    if held is None:
        return
    if event.maximum_execution_time_s is not None:
        held.max_s = event.maximum_execution_time_s
    if event.pod_sets is not None:
        held.pods = counts(event.pod_sets)
        held.assignment = shrunk(held.assignment, held.pods)
    if event.queue_name is not None and event.queue_name != held.local_queue:
        # What it consumes moves to the other account.
        state.level(event.workload, held, at, {})
        held.local_queue = event.queue_name
    _recharge(state, event.workload, held, at)


def _reserved(state: Consumption, event: scheduler.QuotaReserved, at: Micros) -> None:
    held = state.workloads.get(event.workload)
    if held is None:
        return
    _stop(state, event.workload, held, at)
    held.cluster_queue = event.cluster_queue
    # It may have been cut since it was decided on: what the scheduler folds late, the log has before this.
    held.assignment = shrunk(event.pod_sets, held.pods)


def _admitted(state: Consumption, event: scheduler.Admitted, at: Micros) -> None:
    held = state.workloads.get(event.workload)
    if held is None or not held.assignment:
        return
    if held.admitted_at is None:
        held.admitted_at = at
        held.began = at if held.began is None else held.began
    _recharge(state, event.workload, held, at)


def _reclaimed(state: Consumption, event: slices.ReclaimablePodsUpdated, at: Micros) -> None:
    held = state.workloads.get(event.workload)
    if held is not None:
        held.reclaimable = dict(event.pods)
        _recharge(state, event.workload, held, at)


def _recharge(state: Consumption, key: str, held: Held, at: Micros) -> None:
    if held.admitted_at is not None:
        state.level(key, held, at, state.charge(held))


def _applied(state: Consumption, event: ObjectApplied, at: Micros) -> None:
    if event.kind == "Configuration":
        _configure(state, msgspec.json.decode(event.object, type=kueue.Configuration).spec, at)


def _deleted(state: Consumption, event: ObjectDeleted, at: Micros) -> None:
    if event.kind == "Configuration":
        _configure(state, kueue.ConfigurationSpec(), at)


def _configure(state: Consumption, spec: kueue.ConfigurationSpec, at: Micros) -> None:
    if state.gives_back == gives_back(spec):
        return
    state.gives_back = gives_back(spec)
    for key, held in state.running.items():
        if held.reclaimable:
            # Who is admitted stays so: the list of those who run does not change.
            _recharge(state, key, held, at)


def _released(state: Consumption, event: scheduler.QuotaReleased, at: Micros) -> None:
    held = state.workloads.get(event.workload)
    if held is not None:
        _stop(state, event.workload, held, at)


def _stop(state: Consumption, key: str, held: Held, at: Micros) -> None:
    if held.admitted_at is not None:
        held.ran_us += max(0, at - held.admitted_at)
        held.admitted_at = held.began = None
        held.reclaimable = {}  # else it was said of a slice that waits, and stays so (WS3)
        state.level(key, held, at, {})
    held.cluster_queue, held.assignment = "", ()


def _replaced(state: Consumption, event: scheduler.WorkloadSliceReplaced, at: Micros) -> None:
    old, new = state.workloads.get(event.workload), state.workloads.get(event.by)
    began = None if old is None else old.began
    _gone(state, event.workload, at)
    if old is not None and new is not None:
        # The job's time, not the slice's, is limited.
        new.ran_us = old.ran_us
        new.began = new.began if began is None else began


def _over(state: Consumption, event: slices.WorkloadFinished | slices.WorkloadDeleted, at: Micros) -> None:
    _gone(state, event.workload, at)


def _gone(state: Consumption, key: str, at: Micros) -> None:
    held = state.workloads.get(key)
    if held is None:
        return
    _stop(state, key, held, at)
    del state.workloads[key]
    if held.parent:
        state.variants.get(held.parent, {}).pop(key, None)
    # There are no events of the variants' own when a parent ends.
    for variant in state.variants.pop(key, ()):
        _gone(state, variant, at)


_FOLDS: Mapping[type[Event], Callable[[Consumption, Any, Micros], None]] = {
    slices.WorkloadCreated: _created,
    slices.WorkloadUpdated: _updated,
    scheduler.QuotaReserved: _reserved,
    scheduler.Admitted: _admitted,
    ObjectApplied: _applied,
    ObjectDeleted: _deleted,
    slices.ReclaimablePodsUpdated: _reclaimed,
    scheduler.QuotaReleased: _released,
    scheduler.WorkloadSliceReplaced: _replaced,
    slices.WorkloadFinished: _over,
    slices.WorkloadDeleted: _over,
}


# Snapshots


class _Dump(msgspec.Struct, frozen=True, array_like=True):
    workloads: dict[str, Held]
    series: list[tuple[Account, list[tuple[Micros, str, int]]]]
    """Totals as texts: bytes times microseconds go beyond 64 bits."""
    at: Micros
    gives_back: bool


VERSION = 4
"""Goes up when old dumps cannot be loaded, or when the same events fold to another state."""

_decoder = msgspec.msgpack.Decoder(_Dump)


def dump(state: Consumption) -> bytes:
    """Return the state as bytes for `load`; equal states, equal bytes."""
    series = [
        (account, [(mark.at, str(mark.total), mark.level) for mark in state.series[account].marks])
        for account in sorted(state.series)
    ]
    workloads = {key: state.workloads[key] for key in sorted(state.workloads)}
    return msgspec.msgpack.encode(_Dump(workloads, series, state.at, state.gives_back))


def load(data: bytes) -> Consumption:
    """Return the state that `dump` wrote.

    Raises:
        msgspec.DecodeError: the bytes are damaged, or of another version.
    """
    found = _decoder.decode(data)
    state = Consumption(workloads=found.workloads, at=found.at, gives_back=found.gives_back)
    for account, marks in found.series:
        state.series[account] = Series([Mark(at, int(total), level) for at, total, level in marks])
    for key, held in found.workloads.items():
        if held.admitted_at is not None:
            state.running[key] = held
        if held.parent:
            state.variants.setdefault(held.parent, {})[key] = None
    return state


__all__ = ["VERSION", "Account", "Consumption", "Series", "dump", "load"]
