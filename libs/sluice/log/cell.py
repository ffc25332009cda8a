"""The whole cell at any point of a log, as its users saw it: one fold over what all services say.

cell = fold_at(source, CellFold(), seq).state
cell.view.jobs["default/train"]             # jobs, workloads, slices, variants, checks, queues
cell.objects.get("ClusterQueue", "research")  # configuration

The api service answers from the same view, so this is what `sluice get` said then. What only the scheduler
can compute, such as how much a queue could still have, is not here; `sluice.replay` has it.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import msgspec

from sluice.core.config.objects import Objects
from sluice.core.views import rows
from sluice.core.views import snapshot as views
from sluice.core.views.view import View
from sluice.core.workload.inputs import heard
from sluice.events import config, job, slices
from sluice.events.base import Event, JobKey, Micros
from sluice.events.envelope import Message
from sluice.protocol.subjects import BASE, COMMITS, job_of, names, nobody_reads

REFUSED = 1_000
"""Jobs that are known only because their manifest was refused: so many are remembered."""

MAX_LOST = 1_000
"""Agents and controllers that are remembered after they were lost."""

_FOLD = 3
"""Raise it when the same entries are folded to another cell."""


class Refusal(NamedTuple):
    """A job whose manifest was refused, and why."""

    seq: int
    at: Micros
    message: str


class Presence(NamedTuple):
    """Whether an agent, or the controller of a check, is there."""

    present: bool
    since: Micros
    message: str
    seq: int
    """Of the message that says so."""
    flavors: tuple[str, ...] = ()
    """What an agent offers, or did when it was there."""
    away: bool = False
    """It has no heartbeat, and its jobs stay with it for now, as it has asked."""
    on_loss: job.OnLoss | None = None
    """What is to become of these; said of who is away."""
    kinds: tuple[str, ...] = ()
    """Kinds of jobs that an agent runs, () for all; as it said when it came."""


@dataclass(slots=True)
class CellState:
    """Everything; only `CellFold.apply` changes it."""

    view: View = field(default_factory=View)
    objects: Objects = field(default_factory=Objects)
    refused: dict[JobKey, Refusal] = field(default_factory=dict)
    presence: dict[str, Presence] = field(default_factory=dict)
    """`agent/<name>`, `check-controller/<name>`: as their shells recorded it."""


class _Snapshot(msgspec.Struct, frozen=True, array_like=True):
    view: msgspec.Raw
    objects: list[tuple[str, int, msgspec.Raw]]
    terminating: list[tuple[str, str, int]]
    refused: list[tuple[JobKey, Refusal]]
    presence: list[tuple[str, Presence]]


_DECODER = msgspec.msgpack.Decoder(_Snapshot)


class CellFold:
    """Folds like a decider, but decides nothing, and all that it folds comes from others."""

    writer: ClassVar[str] = "view"
    reads: ClassVar[frozenset[str]] = frozenset({*COMMITS, "presence.>"})
    state_version: ClassVar[int] = zlib.crc32(
        rows.schema_of(
            [_Snapshot.__annotations__, Refusal.__annotations__, Presence.__annotations__]
        ).encode(),
        views.VERSION + _FOLD,
    )

    def initial(self) -> CellState:
        return CellState()

    def apply(self, state: CellState, event: Event, seq: int, at: Micros) -> None:
        """Fold one event of a commit, or a message about presence."""
        kind = type(event)
        if kind is Message:
            _presence(state, event, seq, at)
            return
        beside = _BESIDE.get(kind)
        if beside is not None:
            beside(state, event, seq, at)
        state.view.apply(event, seq, at)

    def decide(self, state: CellState, at: Micros) -> Sequence[Event]:  # noqa: ARG002
        return ()

    def deadline(self, state: CellState) -> Micros | None:  # noqa: ARG002
        return None

    def dump(self, state: CellState) -> bytes:
        """Return the cell as bytes, without histories: nothing is said from them here."""
        return msgspec.msgpack.encode(
            _Snapshot(
                view=msgspec.Raw(views.dump(state.view)),
                objects=state.objects.rows(),
                terminating=[(kind, key, seq) for (kind, key), seq in state.objects.terminating.items()],
                refused=list(state.refused.items()),
                presence=list(state.presence.items()),
            )
        )

    def load(self, data: bytes) -> CellState:
        found = _DECODER.decode(data)
        objects = Objects.of_rows(found.objects, found.terminating)
        return CellState(views.load(found.view), objects, dict(found.refused), dict(found.presence))


def _object(
    cell: CellState, event: config.ObjectApplied | config.ObjectDeleted, seq: int, _at: Micros
) -> None:
    cell.objects.apply(event, seq)


def _created(cell: CellState, event: slices.WorkloadCreated, _seq: int, _at: Micros) -> None:
    if event.workload.job is not None:
        cell.refused.pop(event.workload.job.key, None)


def _refused(cell: CellState, event: slices.Rejected, seq: int, at: Micros) -> None:
    key = job_of(event.subject)
    if key is None or key in cell.view.jobs:
        return
    cell.refused[key] = Refusal(seq, at, "; ".join(map(str, event.errors)))
    if len(cell.refused) > REFUSED:
        del cell.refused[next(iter(cell.refused))]


_BESIDE: dict[type[Event], Callable[[CellState, Any, int, Micros], None]] = {
    config.ObjectApplied: _object,
    config.ObjectDeleted: _object,
    slices.Rejected: _refused,
    slices.WorkloadCreated: _created,
}
"""What is folded beside the view."""


def _presence(cell: CellState, event: Any, seq: int, at: Micros) -> None:
    if nobody_reads(event.subject) or event.subject == BASE:
        return
    _, kind, name = (*names(event.subject), "", "", "")[:3]
    said = heard(event, kind).data
    if said is None:
        return
    key = f"{kind}/{name}"
    present = isinstance(said, job.Seen)
    before = cell.presence.get(key)
    flavors = tuple(said.flavors) if isinstance(said, job.Seen) else before.flavors if before else ()
    kinds = tuple(said.kinds) if isinstance(said, job.Seen) else before.kinds if before else ()
    if isinstance(said, job.Away):
        since = before.since if before is not None and before.away else at
        cell.presence[key] = Presence(False, since, said.message, seq, flavors, True, said.on_loss, kinds)
        return
    cell.presence[key] = Presence(present, at, said.message, seq, flavors, kinds=kinds)
    lost = (
        ()
        if present
        else [(who.seq, key) for key, who in cell.presence.items() if not (who.present or who.away)]
    )
    for _, longest in sorted(lost)[: max(0, len(lost) - MAX_LOST)]:
        del cell.presence[longest]


__all__ = ["CellFold", "CellState", "Presence"]
