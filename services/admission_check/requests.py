"""The checks bucket, as `sluice.core.checks_requests` says it."""

from collections.abc import Iterable

import msgspec

from sluice.core.checks_requests import request, requests
from sluice.core.checks_state import State
from sluice.events.check_protocol import request_key
from sluice.events.commit import Step

_encode = msgspec.json.Encoder().encode


class Requests:
    """Projection of the checks to be performed; a key that is deleted means stop."""

    bucket = "checks"

    def changes(self, state: State, step: Step) -> Iterable[tuple[str, bytes | None]]:  # noqa: ARG002
        touched, state.touched = state.touched, {}
        for controller, workload, check in touched:
            if not controller:
                continue
            found = request(state, controller, workload, check)
            namespace, _, name = workload.partition("/")
            key = request_key(controller, namespace, name, check)
            yield key, None if found is None else _encode(found)

    def everything(self, state: State) -> Iterable[tuple[str, bytes]]:
        for found in requests(state):
            workload = found.workload
            key = request_key(found.controller, workload.namespace, workload.name, found.check)
            yield key, _encode(found)
