"""Cutting a log down to a namespace, or to what one workload depends on; and making it fit to share."""

import hashlib
from collections.abc import Callable, Iterable, Iterator

import msgspec

from sluice.core.slices_intake import job_of
from sluice.events.codec import decode_commit, decode_message
from sluice.events.config import ObjectApplied
from sluice.events.slices import WorkloadCreated
from sluice.log.contract import Entry
from sluice.log.subjects import COMMITS

from .source import Source
from .states import Progress


class Closure:
    """What one workload's history depends on: its cohort tree's queues, and every job that was in them.

    The scheduler decides tree by tree, and jobs of other trees never touch this one.
    """

    def __init__(self, source: Source, name: str, progress: Progress | None = None) -> None:
        self.key = name if "/" in name else f"default/{name}"
        self.jobs: dict[str, str] = {}
        """Job -> its local queue, `namespace/name`."""
        self.workloads: dict[str, str] = {}
        self._locals: dict[str, set[str]] = {}
        self._links: dict[str, set[str]] = {}
        for entries in source.read(1, None, ("config", "slices")):
            for entry in entries:
                self._look(entry)
            if progress is not None and entries:
                progress(entries[-1].seq)
        queue = self.jobs.get(self.key) or self.workloads.get(self.key)
        self.found = queue is not None
        self.wanted = self._tree(self._locals.get(queue or "", set()))

    def _look(self, entry: Entry) -> None:
        for step in decode_commit(entry.payload).steps:
            for event in step.events:
                if isinstance(event, WorkloadCreated):
                    record = event.workload
                    queue = f"{record.namespace}/{record.queue_name}"
                    self.workloads[record.key] = queue
                    if record.job is not None:
                        self.jobs[record.job.key] = queue
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

    def keeps(self, entry: Entry) -> bool:
        """Tell whether the extract holds the message: configuration and commits all, messages of its jobs."""
        job = job_of(entry.suffix) if entry.suffix.startswith("job.") else None
        return job is None or self.holds(job)


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


# Redaction


_SECRET_FIELDS = ("command", "args", "env", "workingDir", "message", "image", "volumes", "envFrom")


def redacted(batches: Iterable[list[Entry]]) -> Iterator[list[Entry]]:
    """Yield the same log without what jobs run and say: commands, arguments, environments, images, output.

    Names, numbers and labels stay: decisions depend on them.
    """
    for entries in batches:
        yield [_redacted(entry) for entry in entries]


def _redacted(entry: Entry) -> Entry:
    if entry.suffix in COMMITS:
        return entry
    message = decode_message(entry.payload)
    if isinstance(message, tuple):
        return entry._replace(payload=b'{"redacted":"unreadable"}')
    whole = msgspec.json.decode(entry.payload)
    whole["source"] = hashlib.sha256(message.source.encode()).hexdigest()[:12]
    if "data" in whole:
        whole["data"] = _stripped(whole["data"])
    return entry._replace(payload=msgspec.json.encode(whole))


def _stripped(value: object) -> object:
    if isinstance(value, dict):
        return {k: _blank(v) if k in _SECRET_FIELDS else _stripped(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_stripped(member) for member in value]
    return value


def _blank(value: object) -> object:
    """Return a value of the same shape that says nothing."""
    if isinstance(value, str):
        return "redacted" if value else ""
    if isinstance(value, list):
        return ["redacted"] if value and all(isinstance(v, str) for v in value) else []
    return {} if isinstance(value, dict) else value
