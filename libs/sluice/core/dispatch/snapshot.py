"""Snapshots of the dispatcher's state: canonical bytes, equal for equal states."""

import msgspec

from sluice.api.check_parameters import CellLadderSpec
from sluice.events.base import JobKey, WorkloadKey

from .decide import deadline
from .state import CheckRow, Drain, Origin, Placement, State, Worker


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    checks: dict[str, CheckRow]
    ladders: list[tuple[str, str, CellLadderSpec]]
    clusters: dict[str, str]
    cells: dict[str, Worker]
    origins: dict[WorkloadKey, Origin]
    placements: list[Placement]
    orphans: list[tuple[str, JobKey, int]]
    refused: dict[JobKey, tuple[int, ...]]
    newest: dict[JobKey, WorkloadKey]
    drained: dict[str, Drain]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Snapshot)


def dump(state: State) -> bytes:
    """Return the whole of a settled state: no report waits to be answered."""
    return _ENCODER.encode(
        Snapshot(
            checks=dict(sorted(state.checks.items())),
            ladders=[(kind, name, state.ladders[kind, name]) for kind, name in sorted(state.ladders)],
            clusters=dict(sorted(state.clusters.items())),
            cells=dict(sorted(state.cells.items())),
            origins=dict(sorted(state.origins.items())),
            placements=[state.placements[key] for key in sorted(state.placements)],
            orphans=[(cell, job, state.orphans[cell, job]) for cell, job in sorted(state.orphans)],
            refused=dict(sorted(state.refused.items())),
            newest=dict(sorted(state.newest.items())),
            drained=dict(sorted(state.drained.items())),
        )
    )


def load(data: bytes) -> State:
    """Return the state that `dump` wrote.

    Raises:
        msgspec.DecodeError: the bytes are broken or of another version.
    """
    found = _DECODER.decode(data)
    state = State(
        checks=found.checks,
        ladders={(kind, name): spec for kind, name, spec in found.ladders},
        clusters=found.clusters,
        cells=found.cells,
        origins=found.origins,
        placements={placement.key: placement for placement in found.placements},
        orphans={(cell, job): cause for cell, job, cause in found.orphans},
        refused=found.refused,
        newest=found.newest,
        drained=found.drained,
    )
    for placement in found.placements:
        for name in placement.offers:
            state.by_offer[name] = placement.key
        state.deadlines.set(placement.key, deadline(state, placement))
    return state
