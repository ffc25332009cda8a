"""Places of a manager's jobs in other cells, and since when: for `why`, and for `sluice cells`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sluice.api.labels import MOVE, STAY
from sluice.core.dispatch.decider import Dispatcher
from sluice.core.dispatch.places import Place, places_of
from sluice.core.dispatch.state import State as Dispatch
from sluice.core.workload.charges import size_text
from sluice.events.base import WorkloadKey
from sluice.events.codec import rfc3339
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import Progress, fold_at

_WORDS = {
    "Asked": "is asked for there",
    "Waiting": "waits there for room",
    "Held": "has quota there, and is held until this cell has decided",
    "Starting": "has quota there, and may start",
    "Running": "runs there",
    "Finished": "has finished there",
    "Refused": "is refused there",
    "Leaving": "is being withdrawn there",
    "Closed": "is not asked",
    "Abandoned": "was given up, as the cell is out of reach; it may still run there",
}


@dataclass
class CellNote:
    """A job in another cell."""

    cell: str
    state: str
    """As `Place.state`."""
    since: str
    job: str
    """Its name there begins with this."""
    rung: str
    growth: bool = False
    """It is about pods that the job is to have besides those that run."""
    pods: dict[str, int] = field(default_factory=dict)
    message: str = ""
    out_of_reach_since: str = ""
    edit_refused: str = ""
    """Why the cell has not taken up the job's last change."""

    @property
    def words(self) -> str:
        """Return it as a line for people."""
        what = "the growth " if self.growth else ""
        size = f", {size_text(self.pods)}" if self.pods else ""
        since = f" since {self.since}" if self.since else ""
        text = f"{self.cell}: {what}{_WORDS[self.state]}{since}{size}"
        if self.message:
            text += f": {self.message}"
        if self.out_of_reach_since and self.state != "Closed":
            text += f" (the cell is out of reach since {self.out_of_reach_since})"
        if self.edit_refused:
            text += f" (it has refused the last change: {self.edit_refused})"
        return text


@dataclass
class JobRow:
    """A job in a cell."""

    job: str
    """As this cell knows it."""
    workload: str
    note: CellNote


@dataclass
class CellRow:
    """A cell in which a manager places jobs."""

    name: str
    location: str
    """Of the description of its link."""
    state: str
    """Ready, OutOfReach, or Unknown: it has never been in reach."""
    since: str
    drained: str = ""
    """stay or move; "" if it may get jobs."""
    drained_since: str = ""
    message: str = ""
    """Why it is out of reach."""
    jobs: list[JobRow] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    """Jobs of this manager's there that it knows nothing of, and has withdrawn."""
    upto: int = 0
    """Everything that its log says up to there is known."""
    checks: list[str] = field(default_factory=list)
    """AdmissionChecks whose jobs it may get."""

    def count(self, *states: str) -> int:
        return sum(1 for job in self.jobs if job.note.state in states and not job.note.growth)


def cells_of(state: Dispatch) -> list[CellRow]:
    """Return the cells of a manager's configuration, by name, with the jobs that are there."""
    found = {name: _row(state, name) for name in sorted(state.clusters)}
    for key in sorted(state.placements):
        for note in notes_of(state, key):
            row = found.get(note.cell)
            if row is not None and note.state != "Closed":
                row.jobs.append(JobRow(state.placements[key].origin.job, key, note))
    for cell, job in sorted(state.orphans):
        if cell in found:
            found[cell].orphans.append(job)
    return list(found.values())


def _row(state: Dispatch, name: str) -> CellRow:
    worker, drain = state.cells.get(name), state.drained.get(name)
    since = worker.since if worker is not None else 0
    lost = "OutOfReach" if since else "Unknown"
    used = [check for check in sorted(state.checks) if name in _cells_of(state, check)]
    return CellRow(
        name=name,
        location=state.clusters[name] or name,
        state="Ready" if state.is_reachable(name) else lost,
        since=rfc3339(since) if since else "",
        drained="" if drain is None else MOVE if drain.moves else STAY,
        drained_since="" if drain is None else rfc3339(drain.since),
        message=worker.message if worker is not None else "",
        upto=worker.upto if worker is not None else 0,
        checks=used,
    )


def _cells_of(state: Dispatch, check: str) -> Sequence[str]:
    ladder = state.ladder(check)
    return ladder.cells if ladder is not None else ()


def is_manager(source: Source, seq: int) -> bool:
    """Tell whether the log has anything of a dispatcher's up to *seq*."""
    return any(entries for entries in source.read(source.first, seq, (Dispatcher.writer,)))


def dispatch_at(source: Source, seq: int, progress: Progress | None = None) -> Dispatch:
    """Return what the dispatcher knew at *seq*."""
    return fold_at(source, Dispatcher(), seq, progress=progress).state


def notes_of(state: Dispatch, key: WorkloadKey) -> list[CellNote]:
    """Return where a workload's job is, the winner first; of a growth, where that is asked for."""
    return [_note(state, place) for place in places_of(state, key)]


def _note(state: Dispatch, place: Place) -> CellNote:
    cell = state.cells.get(place.cell)
    return CellNote(
        cell=place.cell,
        state=place.state,
        since=rfc3339(place.since) if place.since else "",
        job=place.job,
        rung=place.rung,
        growth=place.growth,
        pods=place.pods,
        message=place.message,
        out_of_reach_since="" if cell is None or cell.lost_at is None else rfc3339(cell.lost_at),
        edit_refused=place.refusal,
    )
