"""Snapshots of the variant-controller's state: canonical bytes, equal for equal states."""

import msgspec

from sluice.api import kueue

from .decide import family_deadline
from .state import Family, State


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    families: list[Family]
    local_queues: dict[str, str]
    cluster_queues: dict[str, kueue.ClusterQueueSpec]
    config: kueue.ConfigurationSpec
    made: int


_ENCODER = msgspec.msgpack.Encoder()
"""Keeps the order of keys inside records: variants are copies of them, byte for byte."""
_DECODER = msgspec.msgpack.Decoder(Snapshot)


def dump(state: State) -> bytes:
    """Return the whole state."""
    return _ENCODER.encode(
        Snapshot(
            families=[state.families[key] for key in sorted(state.families)],
            local_queues=dict(sorted(state.local_queues.items())),
            cluster_queues=dict(sorted(state.cluster_queues.items())),
            config=state.config,
            made=state.made,
        )
    )


def load(data: bytes) -> State:
    """Return the state that `dump` wrote.

    Raises:
        msgspec.DecodeError: the bytes are broken or of another version.
    """
    found = _DECODER.decode(data)
    state = State(
        families={family.key: family for family in found.families},
        local_queues=found.local_queues,
        cluster_queues=found.cluster_queues,
        config=found.config,
        made=found.made,
    )
    for name in state.cluster_queues:
        state.compile(name)
    for family in found.families:
        record = family.record
        state.by_queue.setdefault(f"{record.namespace}/{record.queue_name}", {})[family.key] = None
        for key in family.variants:
            state.of_variant[key] = family
        state.deadlines.set(family.key, family_deadline(state, family))
    return state
