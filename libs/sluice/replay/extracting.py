"""Cutting a log down to a namespace, or to the least that one workload's history depends on."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from sluice.core.slices_intake import job_of
from sluice.events.codec import decode_commit, encode_commit, message_id_of
from sluice.events.commit import Step
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.slices import WorkloadCreated
from sluice.events.variants import VariantCreated
from sluice.log.contract import Entry
from sluice.log.subjects import COMMITS

from .causes import Happening, happenings
from .redeciding import redecided
from .source import Source
from .states import Progress

Unit = tuple[str, str]
"""What is left out as a whole: ("job", key), ("presence", subject), or ("config", kind/namespace/name)."""

TRIES = 120
"""Smaller logs that are tried, at most."""
WORK = 400_000
"""Messages decided again in all those tries, at most."""


class Closure:
    """What one workload's history can depend on: its cohort tree's queues, and every job that was in them.

    The scheduler decides tree by tree, and jobs of other trees never touch this one.
    """

    def __init__(self, source: Source, name: str, progress: Progress | None = None) -> None:
        self.key = name if "/" in name else f"default/{name}"
        self.jobs: dict[str, str] = {}
        """Job -> its local queue, `namespace/name`."""
        self.workloads: dict[str, str] = {}
        self.job_of: dict[str, str] = {}
        """Workload -> its job; a variant's is its parent's."""
        self._locals: dict[str, set[str]] = {}
        self._links: dict[str, set[str]] = {}
        for entries in source.read(1, None, ("config", "slices", "variants")):
            for entry in entries:
                self._look(entry)
            if progress is not None and entries:
                progress(entries[-1].seq)
        queue = self.jobs.get(self.key) or self.workloads.get(self.key)
        self.found = queue is not None
        self.wanted = self._tree(self._locals.get(queue or "", set()))
        self.job = self.key if self.key in self.jobs else self.job_of.get(self.key, "")

    def _look(self, entry: Entry) -> None:
        for step in decode_commit(entry.payload).steps:
            for event in step.events:
                if isinstance(event, WorkloadCreated | VariantCreated):
                    record = event.workload
                    queue = f"{record.namespace}/{record.queue_name}"
                    self.workloads[record.key] = queue
                    if record.job is not None:
                        self.jobs[record.job.key] = queue
                        self.job_of[record.key] = record.job.key
                    elif record.parent is not None:
                        self.job_of[record.key] = self.job_of.get(record.parent, "")
                elif isinstance(event, ObjectApplied):
                    self._configure(event)

    def _configure(self, event: ObjectApplied) -> None:
        """Queues and cohorts that were ever linked count as one tree."""
        spec = msgspec.json.decode(event.object).get("spec", {})
        if event.kind == "LocalQueue":
            name = f"{event.namespace or 'default'}/{event.name}"
            self._locals.setdefault(name, set()).add(spec.get("clusterQueue", ""))
        elif event.kind in ("ClusterQueue", "Cohort"):
            parent = spec.get("cohortName") or spec.get("parentName")
            here = f"{event.kind}/{event.name}"
            self._links.setdefault(here, set())
            if parent:
                self._links[here].add(f"Cohort/{parent}")
                self._links.setdefault(f"Cohort/{parent}", set()).add(here)

    def _tree(self, queues: Iterable[str]) -> frozenset[str]:
        todo = [f"ClusterQueue/{name}" for name in sorted(queues)]
        seen: set[str] = set()
        while todo:
            here = todo.pop()
            if here not in seen:
                seen.add(here)
                todo += sorted(self._links.get(here, ()))
        return frozenset(seen)

    def holds(self, job: str) -> bool:
        """Tell whether the job belongs to the tree; one that never became a workload does not."""
        queues = self._locals.get(self.jobs.get(job, ""), set())
        return any(f"ClusterQueue/{name}" in self.wanted for name in queues)

    def keeps_object(self, event: ObjectApplied | ObjectDeleted) -> bool:
        """Tell whether a configuration object can matter: queues and cohorts of other trees do not."""
        if event.kind == "LocalQueue":
            queues = self._locals.get(f"{event.namespace or 'default'}/{event.name}", set())
            return any(f"ClusterQueue/{name}" in self.wanted for name in queues)
        return event.kind not in ("ClusterQueue", "Cohort") or f"{event.kind}/{event.name}" in self.wanted


@dataclass
class Extract:
    """The least log that was found with the same history of one workload; `tries` logs were decided."""

    source: Source
    closure: Closure
    entries: list[Entry] = field(default_factory=list)
    tries: int = 0
    exact: bool = True
    """The history is the recorded one; else this code decides otherwise than what wrote the log."""
    _history: list[tuple[int, str, str]] = field(default_factory=list)
    _work: int = 0

    def cut(self, progress: Progress | None = None) -> list[Entry]:
        """Find it.

        1. Leave out what lies in other cohort trees, and what came after the workload's end.
        2. Leave out what else is not needed, half by half and then one by one, as long as every event about
           the workload stays as it is.
        """
        tree = self._of_tree(progress)
        self._history = _about(tree, self._keys)
        self.entries = self._tried(tree, {})
        everybody = self._everybody
        self.exact = _about(self.entries, everybody) == _about(tree, everybody)
        if not self.exact:
            self.entries = tree
            return tree
        tree = self._until_the_end(tree)
        units = [unit for unit in _units(tree, self.closure) if unit != ("job", self.closure.job)]
        gone: dict[Unit, None] = {}
        size = len(units)
        while size and units:
            for start in range(0, len(units), size):
                if self.tries >= TRIES or self._work >= WORK:
                    return self.entries
                tried = gone | dict.fromkeys(units[start : start + size])
                found = self._tried(tree, tried)
                if self._same(found):
                    gone, self.entries = tried, found
            units = [unit for unit in units if unit not in gone]
            size = min(size, len(units)) // 2
        return self.entries

    @property
    def _keys(self) -> frozenset[str]:
        job = self.closure.job
        own = [key for key, of in self.closure.job_of.items() if of == job]
        return frozenset((job, self.closure.key, *own))

    @property
    def _everybody(self) -> frozenset[str]:
        """Return all jobs and workloads of the tree."""
        closure = self.closure
        jobs = {job for job in closure.jobs if closure.holds(job)}
        return frozenset((*jobs, *(key for key, job in closure.job_of.items() if job in jobs)))

    def _of_tree(self, progress: Progress | None) -> list[Entry]:
        found: list[Entry] = []
        for entries in self.source.read():
            for entry in entries:
                kept = (
                    entry if entry.suffix in COMMITS and entry.suffix != "config" else self._keep(entry, {})
                )
                if kept is not None:
                    found.append(kept)
            if progress is not None and entries:
                progress(entries[-1].seq)
        return found

    def _until_the_end(self, tree: list[Entry]) -> list[Entry]:
        """Cut behind the last event about a workload that is over; a live one depends on all that came."""
        over = any(kind in ("WorkloadFinished", "WorkloadDeleted") for _, kind, _ in self._history[-8:])
        last = self._history[-1][0] if over and self._history else tree[-1].seq
        return [entry for entry in tree if entry.seq <= last]

    def _keep(self, entry: Entry, gone: dict[Unit, None]) -> Entry | None:
        if entry.suffix == "config":
            return _configuration(entry, lambda e: self.closure.keeps_object(e) and _unit_of(e) not in gone)
        unit = _unit(entry, self.closure)
        if unit in gone or (unit[0] == "job" and not self.closure.holds(unit[1])):
            return None
        return entry

    def _tried(self, tree: list[Entry], gone: dict[Unit, None]) -> list[Entry]:
        self.tries += 1
        self._work += len(tree)
        return list(redecided(tree, lambda entry: self._keep(entry, gone), self.source.header.cell))

    def _same(self, entries: list[Entry]) -> bool:
        return _about(entries, self._keys) == self._history


def _about(entries: Iterable[Entry], keys: frozenset[str]) -> list[tuple[int, str, str]]:
    """Return every event and message about these: where, what, and all that it says but its cause."""
    marks = [key.encode() for key in keys]
    found = []
    for entry in entries:
        if entry.suffix in COMMITS and not any(mark in entry.payload for mark in marks):
            continue
        found += [(h.seq, h.type, _said(h, keys)) for h in happenings((entry,)) if h.about() & keys]
    return found


def _said(happening: Happening, keys: frozenset[str]) -> str:
    """Of events about several workloads only what is about these counts."""
    data = {k: v for k, v in happening.data.items() if k != "cause"}
    if "workloads" in data:
        data["workloads"] = [key for key in data["workloads"] if key in keys]
    return msgspec.json.encode(data, order="sorted").decode()


def _units(entries: Iterable[Entry], closure: Closure) -> list[Unit]:
    """Return what may be left out, the newest first: what came late is needed least."""
    found: dict[Unit, None] = {}
    for entry in entries:
        if entry.suffix == "config":
            for step in decode_commit(entry.payload).steps:
                for event in step.events:
                    if isinstance(event, ObjectApplied | ObjectDeleted):
                        found[_unit_of(event)] = None
        elif entry.suffix not in COMMITS:
            found[_unit(entry, closure)] = None
    return list(reversed(found))


def _unit(entry: Entry, closure: Closure) -> Unit:
    job = job_of(entry.suffix) if entry.suffix.startswith("job.") else None
    if job is not None:
        return ("job", job)
    if entry.suffix.startswith("verdict."):
        about = next(iter(happenings((entry,)))).data.get("workload", "")
        return ("job", closure.job_of.get(about, about))
    return ("presence", entry.suffix)


def _unit_of(event: ObjectApplied | ObjectDeleted) -> Unit:
    return ("config", f"{event.kind}/{event.namespace}/{event.name}")


def _configuration(entry: Entry, keeps: Callable[[ObjectApplied | ObjectDeleted], bool]) -> Entry | None:
    """Return a commit of configuration with only the objects that are kept; None if none is."""
    steps = []
    for step in decode_commit(entry.payload).steps:
        events = tuple(e for e in step.events if not isinstance(e, ObjectApplied | ObjectDeleted) or keeps(e))
        if events:
            steps.append(Step(upto=step.upto, at=step.at, events=events))
    if not steps:
        return None
    return entry._replace(payload=encode_commit("main", "config", message_id_of(entry.payload), steps))


def other_namespaces(namespace: str) -> Callable[[Entry], bool]:
    """Return a filter that keeps the jobs of one namespace, and everything that is no job's."""

    def keeps(entry: Entry) -> bool:
        job = job_of(entry.suffix) if entry.suffix.startswith("job.") else None
        return job is None or job.startswith(f"{namespace}/")

    return keeps


def only(source: Source, keeps: Callable[[Entry], bool], start: int, until: int) -> Iterator[list[Entry]]:
    """Yield the entries that are kept."""
    for entries in source.read(start, until):
        yield [entry for entry in entries if keeps(entry)]


__all__ = ["Closure", "Extract", "Unit", "only", "other_namespaces"]
