"""The dispatch bucket, as `sluice.core.slices.dispatch` says it."""

from collections.abc import Callable, Iterable

import msgspec

from sluice.core.slices.dispatch import dispatch_entry
from sluice.core.slices.state import State
from sluice.events.commit import Step
from sluice.protocol.dispatch import DispatchEntry, dispatch_key


class Entries[V]:
    """What each job should be doing, as *encode* writes it; who has nothing to do has no key."""

    bucket = "dispatch"

    def __init__(self, encode: Callable[[DispatchEntry], V]) -> None:
        self._encode = encode

    def changes(self, state: State, step: Step) -> Iterable[tuple[str, V | None]]:  # noqa: ARG002
        for job, had_an_entry in state.touched.items():
            entry = dispatch_entry(state, job)
            if entry is not None:
                yield dispatch_key(job), self._encode(entry)
            elif had_an_entry:
                yield dispatch_key(job), None

    def everything(self, state: State) -> Iterable[tuple[str, V]]:
        for job in state.jobs:
            entry = dispatch_entry(state, job)
            if entry is not None:
                yield dispatch_key(job), self._encode(entry)


class Dispatch(Entries[bytes]):
    """The projection: the entries as JSON."""

    def __init__(self) -> None:
        super().__init__(msgspec.json.Encoder().encode)
