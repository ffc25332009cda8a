"""Where jobs of a manager are in other cells, and since when: for `why`, and for `sluice cells`."""

from dataclasses import dataclass, field

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
        text = f"{self.cell}: {what}{_WORDS[self.state]} since {self.since}{size}"
        if self.message:
            text += f": {self.message}"
        if self.out_of_reach_since:
            text += f" (the cell is out of reach since {self.out_of_reach_since})"
        if self.edit_refused:
            text += f" (it has refused the last change: {self.edit_refused})"
        return text


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
        since=rfc3339(place.since),
        job=place.job,
        rung=place.rung,
        growth=place.growth,
        pods=place.pods,
        message=place.message,
        out_of_reach_since="" if cell is None or cell.lost_at is None else rfc3339(cell.lost_at),
        edit_refused=place.refusal,
    )
