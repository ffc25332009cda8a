"""The dispatch bucket, as `sluice.core.slices_dispatch` says it."""

from collections.abc import Iterable

import msgspec

from sluice.core.slices_dispatch import dispatch_entry
from sluice.core.slices_state import State
from sluice.events.commit import Step
from sluice.events.dispatch import dispatch_key

_encode = msgspec.json.Encoder().encode


class Dispatch:
    """Projection of what each job should be doing; keys of jobs that have nothing to do are deleted."""

    bucket = "dispatch"

    def changes(self, state: State, step: Step) -> Iterable[tuple[str, bytes | None]]:  # noqa: ARG002
        touched, state.touched = state.touched, {}
        for job in touched:
            entry = dispatch_entry(state, job)
            if entry is not None:
                yield dispatch_key(job), _encode(entry)
            elif touched[job]:
                yield dispatch_key(job), None

    def everything(self, state: State) -> Iterable[tuple[str, bytes]]:
        for job in state.jobs:
            entry = dispatch_entry(state, job)
            if entry is not None:
                yield dispatch_key(job), _encode(entry)
