"""The published projections: written after the acknowledgement, fenced, repaired by the next leader."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from sluice.core.checks_requests import request, requests
from sluice.core.slices_dispatch import dispatch_entry
from sluice.events.base import JobKey
from sluice.events.check_protocol import CheckRequest, request_key
from sluice.events.commit import Step
from sluice.events.dispatch import DispatchEntry
from sluice.log.hooks import Hooks

from .buckets import Bucket

if TYPE_CHECKING:
    from .replica import Replica

Change = tuple[str, Any]


def dispatch_changes(state: Any) -> list[Change]:
    """Return the entries of the jobs that a step has touched, as `services.slice_aggregator` does."""
    touched, state.touched = state.touched, {}
    found: list[Change] = []
    for job, had in touched.items():
        entry = dispatch_entry(state, job)
        if entry is not None or had:
            found.append((job, entry))
    return found


def dispatch_everything(state: Any) -> Iterable[tuple[str, DispatchEntry]]:
    for job in state.jobs:
        entry = dispatch_entry(state, JobKey(job))
        if entry is not None:
            yield job, entry


def check_changes(state: Any) -> list[Change]:
    touched, state.touched = state.touched, {}
    found: list[Change] = []
    for controller, workload, check in touched:
        if controller:
            namespace, _, name = workload.partition("/")
            key = request_key(controller, namespace, name, check)
            found.append((key, request(state, controller, workload, check)))
    return found


def check_everything(state: Any) -> Iterable[tuple[str, CheckRequest]]:
    for found in requests(state):
        workload = found.workload
        yield request_key(found.controller, workload.namespace, workload.name, found.check), found


@dataclass(eq=False)
class Projector:
    """Keeps one bucket as its service's leader says."""

    bucket: Bucket[Any]
    changes: Callable[[Any], list[Change]]
    everything: Callable[[Any], Iterable[tuple[str, Any]]]
    owner: "Projecting | None" = None
    """Who may write: the leader that came last."""
    queue: dict[str, Any] = field(default_factory=dict)
    compared: bool = True

    @property
    def due(self) -> bool:
        return bool(self.queue) or not self.compared

    def write(self, most: int) -> bool:
        """Write what is due; the first time after a take-over everything is compared."""
        owner = self.owner.replica if self.owner is not None else None
        if owner is None or not owner.able or not owner.leading:
            return False
        if not self.compared:
            if owner.busy:
                return False
            self._compare(owner)
            return True
        if not self.queue:
            return False
        for key in list(self.queue)[:most]:
            self._put(key, self.queue.pop(key))
        return True

    def _compare(self, owner: "Replica") -> None:
        wanted = dict(self.everything(owner.state))
        for key in [key for key in self.bucket.values if key not in wanted]:
            self.bucket.delete(key)
        for key, value in wanted.items():
            kept = self.bucket.get(key)
            if kept is None or msgspec.structs.replace(kept.value, seq=0) != value:
                self.bucket.put(key, msgspec.structs.replace(value, seq=owner.machine.fold.own))
        self.queue.clear()
        self.compared = self.bucket.whole = True

    def _put(self, key: str, value: Any) -> None:
        if value is None:
            self.bucket.delete(key)
        else:
            self.bucket.put(key, value)


class Projecting(Hooks[Any]):
    """One replica's part in a projection."""

    def __init__(self, projector: Projector) -> None:
        self.projector = projector
        self.replica: Any = None

    def decided(self, state: Any, step: Step) -> object:
        found = self.projector.changes(state)
        return found if step.events else ()

    def replayed(self, state: Any, step: Step, seq: int) -> None:  # noqa: ARG002
        self.projector.changes(state)

    def leading(self, state: Any, own: int) -> None:  # noqa: ARG002
        projector = self.projector
        projector.owner, projector.queue, projector.compared = self, {}, False

    def committed(self, state: Any, steps: Sequence[Step], seq: int, effects: Sequence[object]) -> None:  # noqa: ARG002
        projector = self.projector
        if projector.owner is not self:
            return
        queue = projector.queue
        for changes in effects:
            for key, value in changes:  # type: ignore[attr-defined]
                queue.pop(key, None)
                queue[key] = None if value is None else msgspec.structs.replace(value, seq=seq)


__all__ = [
    "Projecting",
    "Projector",
    "check_changes",
    "check_everything",
    "dispatch_changes",
    "dispatch_everything",
]
