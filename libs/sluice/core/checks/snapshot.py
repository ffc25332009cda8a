"""Snapshots of the admission-check service's state: canonical bytes, equal for equal states."""

import msgspec

from sluice.api import kueue
from sluice.events.base import WorkloadKey

from .state import Check, Controller, State, Tracked
from .timeouts import rebuilt


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    workloads: list[Tracked]
    by_queue: list[tuple[str, list[str]]]
    cluster_queues: dict[str, kueue.ClusterQueueSpec]
    flavors: dict[str, kueue.ResourceFlavorSpec]
    checks: dict[str, Check]
    parameters: list[tuple[str, str, int, bytes]]
    controllers: list[tuple[str, Controller]]
    config: kueue.ConfigurationSpec


_ENCODER = msgspec.msgpack.Encoder()
"""Keeps the order of keys: what is made of records is the same byte for byte."""
_DECODER = msgspec.msgpack.Decoder(Snapshot)


def dump(state: State) -> bytes:
    """Return the whole of a settled state: nothing waits to be decided on."""
    return _ENCODER.encode(
        Snapshot(
            workloads=[state.workloads[key] for key in sorted(state.workloads)],
            by_queue=[(queue, list(state.by_queue[queue])) for queue in sorted(state.by_queue)],
            cluster_queues=dict(sorted(state.cluster_queues.items())),
            flavors=dict(sorted(state.flavors.items())),
            checks=dict(sorted(state.checks.items())),
            parameters=[
                (kind, name, seq, bytes(spec))
                for (kind, name), (seq, spec) in sorted(state.parameters.items())
            ],
            controllers=list(state.controllers.items()),
            config=state.config,
        )
    )


def load(data: bytes) -> State:
    """Return the state that `dump` wrote.

    Raises:
        msgspec.DecodeError: the bytes are broken or of another version.
    """
    found = _DECODER.decode(data)
    state = State(
        workloads={tracked.record.key: tracked for tracked in found.workloads},
        by_queue={queue: dict.fromkeys(map(WorkloadKey, keys)) for queue, keys in found.by_queue},
        cluster_queues=found.cluster_queues,
        flavors=found.flavors,
        checks=found.checks,
        parameters={(kind, name): (seq, msgspec.Raw(spec)) for kind, name, seq, spec in found.parameters},
        controllers=dict(found.controllers),
        config=found.config,
        unanswered=rebuilt(found.workloads),
    )
    for tracked in found.workloads:
        if tracked.record.parent is not None:
            state.families.setdefault(tracked.record.parent, {})[tracked.record.key] = None
    return state
