"""The checks bucket, as `sluice.core.checks.requests` says it."""

from collections.abc import Callable, Iterable

import msgspec

from sluice.core.checks.requests import request, requests
from sluice.core.checks.state import State
from sluice.events.commit import Step
from sluice.protocol.checks import CheckRequest, request_key


class Entries[V]:
    """The checks to be performed, as *encode* writes them; a key that is deleted means stop."""

    bucket = "checks"

    def __init__(self, encode: Callable[[CheckRequest], V]) -> None:
        self._encode = encode

    def changes(self, state: State, step: Step) -> Iterable[tuple[str, V | None]]:  # noqa: ARG002
        for controller, workload, check in state.touched:
            if not controller:
                continue
            found = request(state, controller, workload, check)
            namespace, _, name = workload.partition("/")
            key = request_key(controller, namespace, name, check)
            yield key, None if found is None else self._encode(found)

    def everything(self, state: State) -> Iterable[tuple[str, V]]:
        for found in requests(state):
            workload = found.workload
            key = request_key(found.controller, workload.namespace, workload.name, found.check)
            yield key, self._encode(found)


class CheckRequestProjection(Entries[bytes]):
    """The projection: the requests as JSON."""

    def __init__(self) -> None:
        super().__init__(msgspec.json.Encoder().encode)
