"""Start of the services around deciders: their own configuration, then the shell of `sluice.log.runtime`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import msgspec

from sluice import telemetry
from sluice.log.decider import Decider
from sluice.log.runtime.config import load_own
from sluice.log.runtime.leader_task import LeaderTask
from sluice.log.runtime.presence import Known, PresenceWatcher
from sluice.log.runtime.projection import Projection
from sluice.log.runtime.service import Shell, run_service


class Nothing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service without settings of its own: what it decides by is in the log (G2).

    An unknown variable with its prefix is an error, not silence.
    """


class Watching(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a service that looks at heartbeats takes from `<SERVICE>_*`, beside the cell's configuration."""

    poll_s: Annotated[float, msgspec.Meta(gt=0)] = 0.5
    """How often the heartbeats are looked at."""
    lost_after_s: Annotated[float, msgspec.Meta(gt=0)] = 3.0
    """How long an expired heartbeat must stay away before its agent or controller counts as lost.

    It covers those that only have to find a restarted server again. Checks stay active for longer:
    `controllerGraceSeconds` of the Configuration object.
    """


def run_decider[S](
    name: str,
    decider: Decider[S],
    projections: Sequence[Projection[S]] = (),
    presence: tuple[str, Known[S]] | None = None,
    tasks: Sequence[LeaderTask[S]] = (),
) -> None:
    """Run a service until SIGTERM or SIGINT.

    *presence*: whose heartbeats it watches, what the log says. *tasks*: what its leader does besides.
    """
    hooks = [*_watchers(name, presence), *tasks]

    async def setup(shell: Shell[Any]) -> Callable[[], Awaitable[None]] | None:
        for hook in hooks:
            hook.target = shell.log
        return None

    run_service(name, decider, projections=projections, hooks=hooks, setup=setup, telemetry=telemetry.start)


def _watchers[S](name: str, presence: tuple[str, Known[S]] | None) -> list[LeaderTask[S]]:
    """Return what watches the heartbeats, if any are to be watched, with the settings of the service."""
    if presence is None:
        load_own(name, Nothing)
        return []
    config = load_own(name, Watching)
    return [
        PresenceWatcher(
            presence[0],
            name.replace("_", "-"),
            presence[1],
            poll_s=config.poll_s,
            lost_after_s=config.lost_after_s,
        )
    ]
