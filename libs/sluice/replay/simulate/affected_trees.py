"""Trees that a change can reach: quota never crosses the root of a cohort tree (SC3); others do as they did.

    reach = reach_of(given, changed)        # None: the cell cannot be divided
    for part in reach.parts: part.job("team-a/train"), part.queue("team-a/main"), part.inputs(changed)

Two queues belong together if any configuration, before or after the change, at any time, joins them, or if
a job was ever sent to both. What is not of one tree reaches all of them, and each is still played by itself.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from sluice.api import kueue
from sluice.events.base import JobKey
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.protocol.subjects import job_of

from .inputs import Input, Inputs

_CLUSTER_QUEUES = msgspec.json.Decoder(kueue.ClusterQueue)
_COHORTS = msgspec.json.Decoder(kueue.Cohort)
_LOCAL_QUEUES = msgspec.json.Decoder(kueue.LocalQueue)
_CONFIGURATIONS = msgspec.json.Decoder(kueue.Configuration)

_Place = tuple[str, str]
"""(kind, name) of a queue, cohort or job."""

PARTS = 8
"""Enough for several processors, few enough for what each costs of itself: a process and the flavors."""


class Part:
    """Cohort trees that are played in one cell, without the others."""

    def __init__(self, places: Iterable[_Place]) -> None:
        self._places = frozenset(places)
        self._jobs = frozenset(JobKey(name) for kind, name in self._places if kind == "Job")
        self._queues = frozenset(name for kind, name in self._places if kind == "LocalQueue")

    def __len__(self) -> int:
        return len(self._jobs)

    def job(self, job: JobKey) -> bool:
        return job in self._jobs

    def queue(self, local_queue: str) -> bool:
        """Is `namespace/name` a queue of these trees?"""
        return local_queue in self._queues

    def inputs(self, inputs: Inputs) -> Iterator[Input]:
        """Yield all that is about no job, queue or cohort elsewhere."""
        for item in inputs.items:
            if item.suffix == "config":
                events = tuple(event for event in item.events if self._concerns(event))
                if len(events) == len(item.events):
                    yield item
                elif events:
                    yield Input(item.at, "config", b"", events, item.seq)
            elif not item.suffix.startswith("job.") or job_of(item.suffix) in self._jobs:
                yield item

    def _concerns(self, event: Any) -> bool:
        place = _place(event)
        return place is None or place in self._places


class Reach:
    """The cohort trees that are played anew, in parts of about the same size."""

    def __init__(self, parts: Sequence[Part], of: int) -> None:
        self.parts = tuple(parts)
        self.of = of
        """How many jobs there are."""

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def queue(self, local_queue: str) -> bool:
        return any(part.queue(local_queue) for part in self.parts)


class _Trees:
    """Sets of places that belong together."""

    def __init__(self) -> None:
        self._above: dict[_Place, _Place] = {}

    def root(self, place: _Place) -> _Place:
        above = self._above
        while (upper := above.setdefault(place, place)) != place:
            above[place] = above[upper]
            place = upper
        return place

    def join(self, one: _Place, other: _Place) -> None:
        self._above[self.root(one)] = self.root(other)

    def places(self) -> list[_Place]:
        return list(self._above)


def reach_of(given: Inputs, changed: Inputs, parts: int = PARTS) -> Reach | None:
    """Return what the difference between the two can reach, in so many *parts* at most.

    None: the cell cannot be divided, or nothing is won by it.
    """
    trees = _Trees()
    for inputs in (given, changed):
        for event in _config(inputs.items):
            if isinstance(event, ObjectApplied) and not _join(trees, event):
                return None
    for job, sent_to in given.queues.items():
        trees.root(("Job", job))
        for queue in sent_to:
            if queue.endswith("/"):
                return None  # a manifest that cannot be read
            trees.join(("Job", job), ("LocalQueue", queue))
    touched = _touched(trees, given, changed)
    found: dict[_Place, list[_Place]] = {}
    for place in trees.places():
        root = trees.root(place)
        if touched is None or root in touched:
            found.setdefault(root, []).append(place)
    divided = _divided(found.values(), parts)
    reach = Reach(divided, len(given.queues))
    return reach if len(divided) > 1 or len(reach) < reach.of else None


def _divided(trees: Iterable[list[_Place]], parts: int) -> list[Part]:
    """Put trees together in parts of about the same number of jobs."""
    counted = [(sum(1 for kind, _ in places if kind == "Job"), places) for places in trees]
    counted = sorted((each for each in counted if each[0]), key=lambda each: -each[0])
    bins = [(0, n, list[_Place]()) for n in range(min(parts, len(counted)))]
    for jobs, places in counted:
        size, number, members = heapq.heappop(bins)
        heapq.heappush(bins, (size + jobs, number, members + places))
    bins.sort(key=lambda each: (-each[0], each[1]))
    return [Part(members) for _, _, members in bins] or [Part(())]


def _config(items: Iterable[Input]) -> Iterator[Any]:
    for item in items:
        yield from item.events


def _join(trees: _Trees, event: ObjectApplied) -> bool:
    """Note what the object joins; False if it joins everything."""
    if event.kind == "ClusterQueue":
        cohort = _CLUSTER_QUEUES.decode(event.object).spec.cohort_name
        trees.join(place := (event.kind, event.name), ("Cohort", cohort) if cohort else place)
    elif event.kind == "Cohort":
        parent = _COHORTS.decode(event.object).spec.parent_name
        trees.join(place := (event.kind, event.name), ("Cohort", parent) if parent else place)
    elif event.kind == "LocalQueue":
        manifest = _LOCAL_QUEUES.decode(event.object)
        trees.join(_local(manifest), ("ClusterQueue", manifest.spec.cluster_queue))
    elif event.kind == "Configuration":
        # One admission anywhere holds up the next one everywhere.
        settings = _CONFIGURATIONS.decode(event.object).spec.wait_for_pods_ready
        return not (settings.enable and settings.block_admission)
    return True


def _touched(trees: _Trees, given: Inputs, changed: Inputs) -> set[_Place] | None:
    """Return the roots of the trees in which anything differs; None: something of the whole cell does."""
    touched: set[_Place] = set()
    before, after = ({id(item): item for item in inputs.items} for inputs in (given, changed))
    differing = [item for key, item in before.items() if key not in after]
    differing += [item for key, item in after.items() if key not in before]
    for item in differing:
        if item.suffix == "config":
            continue
        job = job_of(item.suffix)
        if job is None:
            return None
        touched.add(trees.root(("Job", job)))
    was, will = ({id(event): event for event in _config(inputs.items)} for inputs in (given, changed))
    for event in (
        *(event for key, event in was.items() if key not in will),
        *(event for key, event in will.items() if key not in was),
    ):
        place = _place(event)
        if place is None:
            return None
        touched.add(trees.root(place))
    return touched


def _place(event: ObjectApplied | ObjectDeleted) -> _Place | None:
    if event.kind in ("ClusterQueue", "Cohort"):
        return (event.kind, event.name)
    if event.kind != "LocalQueue":
        return None
    if isinstance(event, ObjectDeleted) or event.namespace:
        return (event.kind, f"{event.namespace}/{event.name}")
    return _local(_LOCAL_QUEUES.decode(event.object))


def _local(manifest: kueue.LocalQueue) -> _Place:
    return ("LocalQueue", f"{manifest.metadata.namespace}/{manifest.metadata.name}")
