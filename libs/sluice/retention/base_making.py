"""Making a base: the states of all services at one sequence, folded from the log.

Only a settled state can be stored, and services settle at different places. So each part is the state at
the first commit at or behind the wanted sequence behind which its service had nothing left to decide. What
it had not yet answered there is no part of it: the log must be there from the first of these messages on
(`begin`). A service that has decided nothing since lets nobody cut what it has not answered; each marks how
far it has come at least every 1,000 messages.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sluice import __version__
from sluice.core.deciders import DECIDERS
from sluice.log.cell import CellFold
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold
from sluice.log.runtime.bases import Base, packed
from sluice.log.runtime.snapshot import pack
from sluice.log.runtime.snapshot_info import SnapshotInfo
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import beginning, patterns_of, unhurried

from .errors import NoStateYetError, NotVerifiedError

Start = Callable[[Decider[Any]], Fold[Any]]
"""Returns a state to begin with."""


@dataclass(frozen=True)
class Stored:
    """A state that a service has saved by itself, and that nobody else can fold."""

    info: SnapshotInfo
    compressed: bytes


@dataclass(frozen=True)
class Made:
    """A base, and its parts as they are stored."""

    base: Base
    parts: dict[str, bytes]
    limit: str = ""
    """The service that keeps `begin` where it is, "" if none does."""


def make(
    source: Source, wanted: int, beside: Sequence[Stored] = (), needs: Sequence[tuple[int, str]] = ()
) -> Made:
    """Return a base of which all states are of *wanted*, or soon after.

    *beside*: what the api service has saved for itself, of another place. *needs*: what others need of the
    log: the first sequence, and who.

    Raises:
        NoStateYetError: a service is not done deciding what it decided last.
    """
    parts: dict[str, bytes] = {}
    infos: list[SnapshotInfo] = []
    needed: list[tuple[int, str]] = list(needs)
    with unhurried():
        for kind in DECIDERS:
            decider = kind()
            fold = _settled(source, decider, wanted)
            data = decider.dump(fold.state)
            infos.append(_info(fold, data))
            parts[decider.writer] = packed(data)
        seq = max(wanted, *(max(info.upto, info.own) for info in infos))
        needed += [(_needed(source, info, seq), info.writer) for info in infos]
        view = _view(source, seq)
        data = view.decider.dump(view.state)
        infos.append(_info(view, data))
        parts[view.decider.writer] = packed(data)
    for stored in beside:
        needed.append((stored.info.upto + 1, "api"))
        infos.append(stored.info)
        parts[stored.info.writer] = stored.compressed
    begin, limit = min(needed)
    base = Base(
        cell=source.header.cell,
        seq=seq,
        begin=min(begin, seq + 1),
        at=_time_of(source, seq),
        release=__version__,
        parts=infos,
    )
    return Made(base, parts, limit if begin <= wanted else "")


def verify(source: Source, made: Made, *, whole: bool = False) -> None:
    """Fold *source*, which need not be what the base was made from, up to each part: the bytes must be equal.

    *whole*: from its beginning, and not from the base before, which was verified, too.

    Raises:
        NotVerifiedError: they are not.
    """
    kinds: Sequence[Decider[Any]] = [kind() for kind in DECIDERS]
    with unhurried():
        for decider in kinds:
            part = made.base.part(decider.writer)
            if part is None:
                raise NotVerifiedError(f"the base of {made.base.seq} has nothing of {decider.writer}")
            fold = _before(source, decider, part, whole=whole)
            for _ in _commits_of(source, fold, part.own):
                pass
            _compare(fold, part, made.base)
        part = made.base.part(CellFold.writer)
        if part is not None:
            fold = _before(source, CellFold(), part, whole=whole)
            _compare(_view(source, part.upto, fold), part, made.base)


def _before[S](source: Source, decider: Decider[S], part: SnapshotInfo, *, whole: bool) -> Fold[S]:
    """Return a state from before a part."""
    place = max(part.upto, part.own) - 1
    found = None if whole or place < 1 else source.snapshot(decider, place)
    if found is None or found.start < source.first:
        return beginning(source, decider)
    return found


def _compare(fold: Fold[Any], part: SnapshotInfo, base: Base) -> None:
    digest = pack(fold.decider.dump(fold.state)).digest
    if (fold.upto, fold.own, fold.at, digest) != (part.upto, part.own, part.at, part.digest):
        raise NotVerifiedError(
            f"{source_text(part)} of the base of seq {base.seq} is not what the log leads to at {part.upto}: "
            "nothing is cut"
        )


def source_text(part: SnapshotInfo) -> str:
    return f"the part {part.writer} (upto {part.upto}, own {part.own})"


def _info(fold: Fold[Any], data: bytes) -> SnapshotInfo:
    found = pack(data)
    return SnapshotInfo(
        writer=fold.decider.writer,
        state_version=fold.decider.state_version,
        upto=fold.upto,
        at=fold.at,
        own=fold.own,
        digest=found.digest,
        size=found.size,
    )


def _settled(source: Source, decider: Decider[Any], wanted: int) -> Fold[Any]:
    """Return the state behind the first commit from *wanted* on with nothing left to decide, else behind the
    last one."""
    fold = beginning(source, decider)
    commits = [e.seq for batch in source.read(fold.start, None, (decider.writer,)) for e in batch]
    commits = [seq for seq in commits if seq > fold.own]
    if not commits:
        return fold
    first = next((seq for seq in commits if seq >= wanted), commits[-1])
    for seq in _commits_of(source, fold, commits[-1]):
        if seq >= first and not decider.decide(fold.state, fold.at):
            return fold
    raise NoStateYetError(
        f"{decider.writer}: its last commit, at {fold.own}, does not end what it had to decide. "
        "Is it running?"
    )


def _commits_of(source: Source, fold: Fold[Any], until: int) -> Iterator[int]:
    """Fold up to own commits, and yield their sequences, up to *until*."""
    writer = fold.decider.writer
    if until <= fold.own:
        return
    for entries in source.read(fold.start, until, patterns_of(fold.decider)):
        for part in _cut(entries, writer):
            before = fold.own
            for _ in fold.take_in(part):
                pass
            if fold.own > before:
                yield fold.own


def _cut(entries: Sequence[Entry], writer: str) -> Iterator[Sequence[Entry]]:
    """Cut entries behind each commit of *writer*."""
    begin = 0
    for number, entry in enumerate(entries, 1):
        if entry.suffix == writer:
            yield entries[begin:number]
            begin = number
    if begin < len(entries):
        yield entries[begin:]


def _needed(source: Source, info: SnapshotInfo, seq: int) -> int:
    """Return the first message that a service needs to go on from its part, *seq* + 1 if there is none."""
    kind = next(kind for kind in DECIDERS if kind.writer == info.writer)
    start = max(source.first, min(info.upto, info.own or info.upto) + 1)
    for entries in source.read(start, seq, patterns_of(kind())):
        for entry in entries:
            if entry.seq > (info.own if entry.suffix == info.writer else info.upto):
                return entry.seq
    return seq + 1


def _view(source: Source, seq: int, start: Fold[Any] | None = None) -> Fold[Any]:
    """Return the cell as people see it, at *seq*."""
    fold = start or beginning(source, CellFold())
    for entries in source.read(fold.start, seq, patterns_of(fold.decider)):
        for _ in fold.take_in(entries):
            pass
        fold.release()
    fold.upto = max(fold.upto, seq)
    return fold


def _time_of(source: Source, seq: int) -> int:
    return next((entry.at for batch in source.read(seq, seq) for entry in batch), 0)
