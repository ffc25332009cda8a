"""Results of a run, recorded or virtual: waits, makespan, use, preemptions, borrowing, fairness."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from sluice.core.timing import MICROS_PER_S
from sluice.core.workload.charges import charge, counts, shrunk
from sluice.core.workload.reasons import FLAVOR_MIGRATION
from sluice.events import scheduler, slices, variants
from sluice.events.base import Event, Micros, PodSet, PodSetAssignment

from .lives import Life
from .nominal_quota import NominalQuota


@dataclass(slots=True)
class _Waits:
    """How many there were, and how long those who were admitted had waited for it."""

    lives: int = 0
    finished: int = 0
    all: list[int] = field(default_factory=list)
    by_class: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    by_queue: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, lives: Collection[Life]) -> None:
        self.lives += len(lives)
        for life in lives:
            if life.finished is not None:
                self.finished += 1
            if life.admitted is not None:
                wait = life.admitted - life.created
                self.all.append(wait)
                self.by_class[life.job_class].append(wait)
                self.by_queue[life.queue].append(wait)

    def join(self, other: "_Waits") -> None:
        self.lives += other.lives
        self.finished += other.finished
        self.all += other.all
        for mine, others in ((self.by_class, other.by_class), (self.by_queue, other.by_queue)):
            for name, waits in others.items():
                mine[name] += waits


_Place = tuple[str, str, str]
"""Queue, flavor, resource."""


@dataclass(slots=True)
class _Held:
    """A reservation."""

    queue: str
    pod_sets: tuple[PodSetAssignment, ...]
    specified: Mapping[str, int]
    ended: Mapping[str, int]
    """Pod set -> how many pods its workload asks for, and how many of them have ended (SC7)."""
    admitted: bool = False

    def uses(self) -> dict[_Place, int]:
        charged = charge(self.pod_sets, self.specified, self.ended)
        return {(self.queue, *fr): amount for fr, amount in charged.items()}


@dataclass
class Collector:
    """Takes events in order; `report` says what they came to."""

    lives: dict[str, Life] = field(default_factory=dict)
    lists: bool = True
    """Are decisions kept, or only counted?"""
    gives_back: bool = True
    """Do pods that have ended give their quota back, as the cell is configured?"""
    decisions: list[tuple[str, ...]] = field(default_factory=list)
    """Who got which flavors, was evicted, or preempted whom; in order.

    Jobs stand for their workloads, whose names hold a place in the log.
    """
    moments: list[Micros] = field(default_factory=list)
    """When each of the decisions was made."""
    preempted: dict[str, int] = field(default_factory=dict)
    evicted: dict[str, int] = field(default_factory=dict)
    _jobs: dict[str, str] = field(default_factory=dict)
    begin: Micros = 0
    end: Micros = 0
    _held: dict[str, _Held] = field(default_factory=dict)
    _promised: dict[str, scheduler.QuotaReserved] = field(default_factory=dict)
    """Reservations whose victims still run (AC6): what they have is in use by those, until the admission."""
    _partial: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """Workload that may get fewer pods than it asks for -> how many it asks for: what has ended counts
    against these. Of all others they are what they get."""
    _ended: dict[str, Mapping[str, int]] = field(default_factory=dict)
    _variants: dict[str, list[str]] = field(default_factory=dict)
    """Parent -> its variants."""
    _owners: dict[str, Life] = field(default_factory=dict)
    """Workload, slice or variant -> whose it is."""
    _lines: dict[str, list[str]] = field(default_factory=dict)
    """Who counts as one with whom: the variants of a job, a slice and the one that is to replace it. What any
    of them needs is charged once (WS3, CA10); one list for all of them."""
    _charges: defaultdict[_Place, list[tuple[Micros, int]]] = field(default_factory=lambda: defaultdict(list))
    """What was taken, and given back, when."""
    _used: dict[_Place, int] = field(default_factory=dict)
    _lent: dict[str, int] = field(default_factory=dict)
    """What queues that are closed had used, and of each flavor and resource had borrowed: amount by time."""
    _waits: _Waits = field(default_factory=_Waits)
    """Of those that are closed."""

    def take(self, events: Iterable[Event], at: Micros) -> None:
        for event in events:
            handler = _HANDLERS.get(type(event))
            if handler is not None:
                handler(self, event, at)

    def _created(self, event: slices.WorkloadCreated, at: Micros) -> None:
        record = event.workload
        self.begin = min(self.begin or at, at)
        self._note_sizes(record.key, record.pod_sets)
        if record.job is not None:
            self._jobs[record.key] = record.job.key
        # A slice that replaces another is no workload of its own to people: its job waited and ran already.
        if record.replaces is None:
            kind = record.priority_class or str(record.priority)
            life = Life(record.queue_name, kind, at, waits_since=at, there=1)
            self.lives[record.key] = self._owners[record.key] = life
        else:
            self._join_line(record.key, record.replaces)
            if (owner := self._owners.get(record.replaces)) is not None:
                owner.there += 1
                self._owners[record.key] = owner

    def _variant(self, event: variants.VariantCreated, _at: Micros) -> None:
        record = event.workload
        self._note_sizes(record.key, record.pod_sets)
        if record.parent is not None:
            self._jobs[record.key] = f"{self.name(record.parent)}[{event.variant}]"
            self._join_line(record.key, record.parent)
            self._variants.setdefault(record.parent, []).append(record.key)
            if (owner := self._owners.get(record.parent)) is not None:
                self._owners[record.key] = owner

    def _note_sizes(self, workload: str, pod_sets: Sequence[PodSet]) -> None:
        if any(pods.min_count is not None for pods in pod_sets):
            self._partial[workload] = counts(pod_sets)

    def _join_line(self, workload: str, other: str) -> None:
        line = self._lines.setdefault(other, [other])
        line.append(workload)
        self._lines[workload] = line

    def _admitted(self, event: scheduler.Admitted | variants.ParentAdmitted, at: Micros) -> None:
        promised = self._promised.pop(event.workload, None)
        if promised is not None:
            self._hold(promised.workload, promised.cluster_queue, promised.pod_sets, at)
        held = self._held.get(event.workload)
        if held is not None:
            held.admitted = True
        life = self._owners.get(event.workload)
        if life is None:
            return
        if isinstance(event, variants.ParentAdmitted):
            # Its variant holds the quota, and was admitted itself.
            life.admitted = at if life.admitted is None else life.admitted
        else:
            pod_sets = () if held is None else held.pod_sets
            life.admit(event.workload, (flavor for ps in pod_sets for flavor in ps.flavors.values()), at)

    def _finished(self, event: slices.WorkloadFinished, at: Micros) -> None:
        life = self.lives.get(event.workload)
        if life is not None and life.finished is None:
            life.finished = at
            self.end = max(self.end, at)
        self._over(event, at)

    def _over(self, event: slices.WorkloadFinished | slices.WorkloadDeleted, at: Micros) -> None:
        """A workload is gone, and its variants with it."""
        if (life := self._owners.get(event.workload)) is not None:
            life.end(event.workload, at)
        for key in (event.workload, *self._variants.pop(event.workload, ())):
            self._release(key, at)
            self._partial.pop(key, None)
            self._ended.pop(key, None)
            if (owner := self._owners.pop(key, None)) is not None:
                owner.leave(key, at)
            line = self._lines.pop(key, None)
            if line is not None:
                line.remove(key)

    def _released(
        self,
        event: scheduler.QuotaReleased | variants.VariantDeleted | scheduler.WorkloadSliceReplaced,
        at: Micros,
    ) -> None:
        self._release(event.workload, at)
        if (life := self._owners.get(event.workload)) is None:
            return
        if isinstance(event, scheduler.WorkloadSliceReplaced):
            # Over, as far as its job goes: the one that replaces it is admitted in the same step.
            del self._owners[event.workload]
            life.end(event.workload, at)
        else:
            life.leave(event.workload, at)

    def _updated(self, event: slices.WorkloadUpdated | variants.VariantUpdated, at: Micros) -> None:
        """A slice that shrinks in place gives quota back at once (WS3)."""
        if event.pod_sets is None:
            return
        self._note_sizes(event.workload, event.pod_sets)
        self._changed(event.workload, at, counts(event.pod_sets))

    def _reclaimed(
        self, event: slices.ReclaimablePodsUpdated | variants.VariantPodsReclaimed, at: Micros
    ) -> None:
        """Pods that have ended give their quota back while the others run (SC7)."""
        if self.gives_back:
            self._ended[event.workload] = event.pods
            self._changed(event.workload, at, {})

    def _changed(self, workload: str, at: Micros, sizes: Mapping[str, int]) -> None:
        """Charge a reservation anew, for *sizes* at most."""
        held = self._held.get(workload)
        if held is not None:
            again = self._reservation(workload, held.queue, shrunk(held.pod_sets, sizes))
            again.admitted = held.admitted
            self._change(workload, again, at)

    def _evicted(self, event: scheduler.Evicted, at: Micros) -> None:
        self.evicted[event.reason] = self.evicted.get(event.reason, 0) + 1
        if (life := self._owners.get(event.workload)) is not None:
            life.evict(event.reason)
        if self.lists:
            self.moments.append(at)
            self.decisions.append(("Evicted", self.name(event.workload), event.reason))

    def _preempted(self, event: scheduler.Preempted, at: Micros) -> None:
        self.preempted[event.rule] = self.preempted.get(event.rule, 0) + 1
        if self.lists:
            self.moments.append(at)
            self.decisions.append(
                ("Preempted", self.name(event.workload), self.name(event.preemptor), event.rule)
            )
        if (life := self._owners.get(event.workload)) is not None:
            life.preemptions += 1

    def name(self, workload: str) -> str:
        """Return the job of a workload, `job[variant]` for a variant, the workload itself without a job."""
        return self._jobs.get(workload, workload)

    def _reserve(self, event: scheduler.QuotaReserved, at: Micros) -> None:
        if self.lists:
            flavors = [f"{ps.name}:{r}={ps.flavors.get(r, '')}" for ps in event.pod_sets for r in ps.usage]
            if len(flavors) > 1:
                flavors.sort()
            self.moments.append(at)
            self.decisions.append(("QuotaReserved", self.name(event.workload), event.cluster_queue, *flavors))
        if event.preemptions_pending:
            self._promised[event.workload] = event
        else:
            self._hold(event.workload, event.cluster_queue, event.pod_sets, at)

    def _hold(self, workload: str, queue: str, pod_sets: Sequence[PodSetAssignment], at: Micros) -> None:
        self._change(workload, self._reservation(workload, queue, tuple(pod_sets)), at)

    def _reservation(self, workload: str, queue: str, pod_sets: tuple[PodSetAssignment, ...]) -> _Held:
        return _Held(queue, pod_sets, self._partial.get(workload, {}), self._ended.get(workload, {}))

    def _release(self, workload: str, at: Micros) -> None:
        if self._promised:
            self._promised.pop(workload, None)
        held = self._held.get(workload)
        if held is not None:
            self._change(workload, None, at)
            if held.admitted:
                # Of one that never ran a pod it was said what no completion is left for, which stays so.
                self._ended.pop(workload, None)

    def _change(self, workload: str, held: _Held | None, at: Micros) -> None:
        """Let the workload have another reservation, or none, and charge what that makes of it."""
        line = self._lines.get(workload, (workload,))
        before = self._used_by(line)
        if held is None:
            del self._held[workload]
        else:
            self._held[workload] = held
        after = self._used_by(line)
        for place in dict.fromkeys((*before, *after)):
            if more := after.get(place, 0) - before.get(place, 0):
                self._charges[place].append((at, more))

    def _used_by(self, line: Sequence[str]) -> dict[_Place, int]:
        """Return what those that count as one use: what any of them needs."""
        found = [self._held[each].uses() for each in line if each in self._held]
        if len(found) < 2:
            return found[0] if found else {}
        return {place: max(uses.get(place, 0) for uses in found) for place in chain(*found)}

    def close(self, now: Micros, nominal: NominalQuota) -> None:
        """Let nothing be held any longer, and settle what was borrowed: nothing more is to come."""
        for workload in list(self._held):
            self._release(workload, now)
        used, lent = self._settled(now, nominal)
        _sum(self._used, used)
        _sum(self._lent, lent)
        self._charges.clear()
        self._waits.add(self.lives.values())
        for table in (self.lives, self._jobs, self._promised, self._variants, self._owners, self._lines):
            table.clear()
        self._partial.clear()
        self._ended.clear()

    def join(self, other: "Collector") -> None:
        """Take over what *other* has of other queues. Decisions of the two stand one after the other."""
        self.lives.update(other.lives)
        self.decisions += other.decisions
        self.moments += other.moments
        for mine, others in ((self.preempted, other.preempted), (self.evicted, other.evicted)):
            _sum(mine, others)
        self._jobs.update(other._jobs)
        self.begin = min(self.begin or other.begin, other.begin or self.begin)
        self.end = max(self.end, other.end)
        self._held.update(other._held)
        self._promised.update(other._promised)
        self._partial.update(other._partial)
        self._ended.update(other._ended)
        self._variants.update(other._variants)
        self._owners.update(other._owners)
        self._lines.update(other._lines)
        _sum(self._used, other._used)
        for place, charges in other._charges.items():
            self._charges[place] += charges
        _sum(self._lent, other._lent)
        self._waits.join(other._waits)

    def report(self, now: Micros, nominal: NominalQuota) -> dict[str, Any]:
        """Return the numbers; *nominal*: for what counts as borrowed."""
        waits = _Waits()
        waits.join(self._waits)
        waits.add(self.lives.values())
        by_place, lent = self._settled(now, nominal)
        _sum(by_place, self._used)
        _sum(lent, self._lent)
        used: dict[tuple[str, str], int] = {}
        by_queue: dict[str, int] = {}
        for (queue, *fr), amount in by_place.items():
            _sum(used, {(fr[0], fr[1]): amount})
            _sum(by_queue, {queue: amount})
        totals = nominal.totals()
        shares = [amount / total for queue, amount in by_queue.items() if (total := totals.get(queue, 0))]
        return {
            "workloads": waits.lives,
            "admitted": len(waits.all),
            "neverAdmitted": waits.lives - len(waits.all),
            "finished": waits.finished,
            "makespanSeconds": round(max(0, self.end - self.begin) / MICROS_PER_S, 3),
            "waits": {"all": _summary(waits.all)},
            "waitsByClass": {name: _summary(found) for name, found in sorted(waits.by_class.items())},
            "waitsByQueue": {name: _summary(found) for name, found in sorted(waits.by_queue.items())},
            "preemptions": dict(sorted(self.preempted.items())),
            "migrations": self.evicted.get(FLAVOR_MIGRATION, 0),
            "evictions": dict(sorted(self.evicted.items())),
            "useSeconds": {
                f"{f}/{r}": round(v / MICROS_PER_S / (1000 if r == "cpu" else 1), 3)
                for (f, r), v in sorted(used.items())
            },
            "borrowedSeconds": {
                name: round(v / MICROS_PER_S / (1000 if name.endswith("/cpu") else 1), 3)
                for name, v in sorted(lent.items())
                if v
            },
            "fairness": None
            if not shares
            else round(sum(shares) ** 2 / (len(shares) * sum(s * s for s in shares) or 1), 4),
        }

    def _settled(self, now: Micros, nominal: NominalQuota) -> tuple[dict[_Place, int], dict[str, int]]:
        """Return what was used in each place, and of each flavor and resource above quota: amount by time."""
        used: dict[_Place, int] = {}
        lent: dict[str, int] = {}
        for place, charges in self._charges.items():
            queue, *fr = place
            level = total = above = 0
            since = charges[0][0]
            for at, amount in chain(charges, ((now, 0),)):
                if at != since:
                    span = at - since
                    total += level * span
                    above += nominal.above(queue, (fr[0], fr[1]), level, since, at)
                    since = at
                level += amount
            used[place] = total
            _sum(lent, {f"{place[1]}/{place[2]}": above})
        return used, lent


class Parted:
    """Collects apart what workloads of some sets of local queues (`namespace/name`) do, and all others."""

    def __init__(self, parts: Sequence[Callable[[str], bool]]) -> None:
        self._wanted = parts
        self.parts = [Collector() for _ in parts]
        self.rest = Collector(lists=False)
        self.decisions: list[tuple[str, ...]] = []
        """Those of all parts, in order."""
        self._of: dict[str, Collector] = {}
        """Workload -> who collects what it does."""
        self._queues: dict[str, Collector] = {}

    @property
    def gives_back(self) -> bool:
        """See `Collector`."""
        return self.rest.gives_back

    @gives_back.setter
    def gives_back(self, on: bool) -> None:
        for collector in (*self.parts, self.rest):
            collector.gives_back = on

    def take(self, events: Iterable[Event], at: Micros) -> None:
        of, rest = self._of, self.rest
        for event in events:
            kind = type(event)
            handler = _HANDLERS.get(kind)
            if handler is not None:
                collector = self._made(event) if kind in _MADE else of.get(event.workload, rest)  # type: ignore[attr-defined]
                handler(collector, event, at)
                if kind in _DECIDED and collector is not rest:
                    self.decisions.append(collector.decisions[-1])

    def _made(self, event: Any) -> Collector:
        record = event.workload
        known = record.parent if record.parent is not None else record.replaces
        if known is not None:
            found = self._of.get(known, self.rest)
        else:
            found = self._collector(f"{record.namespace}/{record.queue_name}")
        self._of[record.key] = found
        return found

    def _collector(self, queue: str) -> Collector:
        found = self._queues.get(queue)
        if found is None:
            mine = (part for part, wanted in zip(self.parts, self._wanted, strict=True) if wanted(queue))
            found = self._queues[queue] = next(mine, self.rest)
        return found


_MADE = frozenset({slices.WorkloadCreated, variants.VariantCreated})
_DECIDED = frozenset({scheduler.Evicted, scheduler.Preempted, scheduler.QuotaReserved})

_HANDLERS: dict[type[Event], Callable[[Collector, Any, Micros], None]] = {
    scheduler.Admitted: Collector._admitted,
    scheduler.Evicted: Collector._evicted,
    variants.ParentAdmitted: Collector._admitted,
    scheduler.Preempted: Collector._preempted,
    scheduler.QuotaReleased: Collector._released,
    scheduler.QuotaReserved: Collector._reserve,
    slices.ReclaimablePodsUpdated: Collector._reclaimed,
    variants.VariantCreated: Collector._variant,
    variants.VariantDeleted: Collector._released,
    variants.VariantPodsReclaimed: Collector._reclaimed,
    variants.VariantUpdated: Collector._updated,
    slices.WorkloadCreated: Collector._created,
    slices.WorkloadDeleted: Collector._over,
    slices.WorkloadFinished: Collector._finished,
    scheduler.WorkloadSliceReplaced: Collector._released,
    slices.WorkloadUpdated: Collector._updated,
}


def _sum[K](mine: dict[K, int], others: dict[K, int]) -> None:
    for key, amount in others.items():
        mine[key] = mine.get(key, 0) + amount


def _summary(waits: list[int]) -> dict[str, float]:
    if not waits:
        return {"count": 0, "mean": 0.0, "p50": 0.0, "p95": 0.0, "max": 0.0}
    waits = sorted(waits)
    at = {"p50": waits[(len(waits) - 1) // 2], "p95": waits[(len(waits) - 1) * 95 // 100], "max": waits[-1]}
    mean = sum(waits) / len(waits)
    return {
        "count": len(waits),
        "mean": round(mean / MICROS_PER_S, 3),
        **{k: round(v / MICROS_PER_S, 3) for k, v in at.items()},
    }
