"""Jobs that are over: most are, and hardly anybody asks for one. They lie packed, some tens to a block.

What is packed is read for whoever asks, and forgotten again. Only an event about such a job takes it out, and
when so many lie open that they fill a block, the oldest ones are packed. So what is packed follows from the
events alone, whoever asks for what meanwhile.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

from sluice.events.base import JobKey, WorkloadKey

from . import blocks
from .blocks import Blocks
from .lazy_dict import LazyDict
from .records import JobView, WorkloadView
from .rows import JOB, WORKLOAD, Queues, Reader, encode

_SHOWN = 64
"""Jobs that stay read: who asks for a workload often asks for its job next."""


class Records(Queues, Protocol):
    """What of a view lies packed in part."""

    workloads: LazyDict[WorkloadKey, WorkloadView]
    jobs: LazyDict[JobKey, JobView]


class Unit(NamedTuple):
    """A job and its workloads, variants among them."""

    job: JobView
    workloads: dict[WorkloadKey, WorkloadView]

    @property
    def is_over(self) -> bool:
        return all(workload.finished_at is not None for workload in self.workloads.values())


class Part(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A unit's rows."""

    job: bytes
    workloads: dict[WorkloadKey, bytes]


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """What of it all is in a snapshot; histories are kept apart."""

    open: list[JobKey]
    rows: blocks.Kept


_read_part = msgspec.msgpack.Decoder(Part).decode
_read_histories = msgspec.msgpack.Decoder(dict[WorkloadKey, bytes]).decode


class Finished:
    """What lies packed of a view, and the way in and out."""

    def __init__(self, state: Records) -> None:
        self._state = state
        self.reader = Reader(state, shared={})
        """Reads what lies in the view as rows out of a snapshot."""
        self._reader = Reader(state)
        self.folding = False
        """An event is being folded: what it asks for, it may change."""
        self.rows, self.histories = Blocks(), Blocks()
        """The same numbers in both; there are no histories in a view that was loaded without."""
        self.open: dict[JobKey, None] = {}
        """Jobs that may be over and lie open, in the order in which they ended."""
        self._shown: dict[int, Unit] = {}

    # Out

    def job(self, number: int) -> JobView:
        """Return a job that lies packed; taken out if an event is about it."""
        return (self._take(number) if self.folding else self._show(number)).job

    def workload(self, key: WorkloadKey, number: int) -> WorkloadView:
        """Return a workload that lies packed; its job is taken out if an event is about it."""
        return (self._take(number) if self.folding else self._show(number)).workloads[key]

    def part(self, number: int) -> Part:
        """Return the rows of a job that lies packed."""
        found = self.rows.piece(number)
        if found is None:
            raise KeyError(f"no finished job {number}")
        return _read_part(found)

    def _histories(self, number: int) -> dict[WorkloadKey, bytes]:
        found = self.histories.piece(number)
        return {} if found is None else _read_histories(found)

    def _read(self, number: int) -> Unit:
        part, read = self.part(number), self._reader

        def history(key: WorkloadKey) -> bytes | None:
            return self._histories(number).get(key)

        workloads = {key: read.workload(row, partial(history, key)) for key, row in part.workloads.items()}
        for workload in workloads.values():
            read.linked(workload, workloads)
        return Unit(read.job(part.job, workloads), workloads)

    def _show(self, number: int) -> Unit:
        unit = self._shown.pop(number, None) or self._read(number)
        if len(self._shown) >= _SHOWN:
            del self._shown[next(iter(self._shown))]
        self._shown[number] = unit
        return unit

    def _take(self, number: int) -> Unit:
        unit = self._shown.pop(number, None) or self._read(number)
        for workload in unit.workloads.values():
            workload.read_history()  # while it is there
        self._state.workloads.update(unit.workloads)
        self._state.jobs[unit.job.key] = unit.job
        self.open[unit.job.key] = None
        self.rows.take(number)
        self.histories.take(number)
        return unit

    # In

    def ended(self, key: JobKey) -> None:
        """Note that a job may be over."""
        self.open[key] = None

    def pack(self) -> None:
        """Pack the oldest of those that lie open, if there are enough of them."""
        if len(self.open) < blocks.OPEN + blocks.SIZE:
            return
        units: list[Unit] = []
        for key in [*self.open]:
            if len(units) == blocks.SIZE:
                break
            job = self._state.jobs.get(key)
            if job is None or not (unit := _unit(job)).is_over:
                del self.open[key]  # it is noted again when it ends
            else:
                units.append(unit)
        if len(units) == blocks.SIZE:
            self._add(units)
            for block in [*self.rows.sparse]:
                for number, piece in self.rows.numbered(block):
                    if self._state.jobs.stored(JOB.read(_read_part(piece).job).key) == number:
                        self._take(number)

    def _add(self, units: Sequence[Unit]) -> None:
        parts: list[bytes] = []
        histories: list[bytes] = []
        for unit in units:
            rows = {key: WORKLOAD.row(workload) for key, workload in unit.workloads.items()}
            parts.append(encode(Part(JOB.row(unit.job), rows)))
            histories.append(encode({key: encode(w.history) for key, w in unit.workloads.items()}))
        self.histories.add(histories)
        for number, unit in zip(self.rows.add(parts), units, strict=True):
            self._state.jobs.store(unit.job.key, number)
            for key in unit.workloads:
                self._state.workloads.store(key, number)
            del self.open[unit.job.key]

    # Snapshots

    def dump(self) -> Kept:
        return Kept([*self.open], self.rows.kept())

    def load(self, kept: Kept) -> None:
        self.open = dict.fromkeys(kept.open)
        self.rows = Blocks(kept.rows)
        self.histories = Blocks(blocks.Kept({}, dict(kept.rows.left), kept.rows.next))


def _unit(job: JobView) -> Unit:
    found: dict[WorkloadKey, WorkloadView] = {}
    for key, workload in job.workloads.items():
        found[key] = workload
        found |= workload.variants
    return Unit(job, found)
