"""A log that was cut behind a base, as a source: what the server has after a cut, without a server."""

from typing import Any

from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold
from sluice.log.runtime.bases import BaseMismatchError, NoBaseError, checked, fold_of
from sluice.replay.source.source import ListSource
from sluice.retention.base_making import Made


class CutSource(ListSource):
    """What is left of *entries* behind the cut that *made* permits."""

    earlier = "what was before is in the archive"

    def __init__(self, entries: list[Entry], made: Made | None, first: int) -> None:
        super().__init__([entry for entry in entries if entry.seq >= first], "cut log")
        self.made, self._first = made, first

    @property
    def first(self) -> int:
        return self._first

    def base(self, decider: Decider[Any]) -> Fold[Any] | None:
        if self._first == 1:
            return None
        if self.made is None:
            raise NoBaseError(self.name, self._first)
        base = self.made.base
        part = base.part(decider.writer)
        assert part is not None
        if part.state_version != decider.state_version:
            raise BaseMismatchError(
                decider.writer, self._first, base, part.state_version, decider.state_version
            )
        return fold_of(decider, base, part, checked(part, self.made.parts[decider.writer]))


def cut(entries: list[Entry], made: Made) -> CutSource:
    """Return the log as it is after the farthest cut that the base permits."""
    return CutSource(entries, made, made.base.begin)
