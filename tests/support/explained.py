"""What people are told at the end of the log that a test has played."""

from sluice.core.views import View
from sluice.replay.explain.report import Report
from sluice.replay.explain.why import Others, explain
from sluice.replay.source.source import ListSource
from sluice.replay.source.time_travel import scheduler_at, variants_at

from .memory_log import World


def explained(world: World, name: str, *, help_: bool = True) -> Report:
    """Return what `sluice replay why` says of a workload or a job."""
    source = ListSource(world.log)
    fold, families = scheduler_at(source, source.end), variants_at(source, source.end)
    return explain(fold.state, name, source.end, fold.at, help_=help_, others=Others(families.state))


def shown(world: World) -> View:
    """Return what the api service's view has folded."""
    view = View()
    for seq, _, event in world.history:
        view.apply(event, seq, world.now)
    return view
