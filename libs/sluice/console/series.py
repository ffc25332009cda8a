"""Series of a queue or cohort over time: its numbers at points of the log, taken as the log is folded."""

from typing import NamedTuple

from sluice.events.codec import rfc3339
from sluice.readmodel.world import World

from .answers import NodeRow, SeriesAnswer, SeriesLine
from .asked import Asked
from .cell import sequence
from .handlers import Handlers
from .problems import NotFoundError, ProblemError
from .quota import QuotaTree, amount

MESSAGES = 10_000
"""Up to the moment that is asked about, where no beginning is named."""
POINTS, MOST = 100, 500
"""Points by default, and at most."""


class _Sample(NamedTuple):
    seq: int
    at: int
    rows: list[NodeRow]
    """The node's own first, then its members'; none while it was not there."""


async def queue(handlers: Handlers, asked: Asked) -> SeriesAnswer:
    return await _series(handlers, asked, "ClusterQueue")


async def cohort(handlers: Handlers, asked: Asked) -> SeriesAnswer:
    return await _series(handlers, asked, "Cohort")


async def _series(handlers: Handlers, asked: Asked, kind: str) -> SeriesAnswer:
    name, cell = asked.part("name"), handlers.cell
    upto, time = await cell.ask(
        await sequence(cell, asked.text("at")),
        lambda world: (world.seq, rfc3339(world.at) if world.at else ""),
    )
    oldest = cell.source.first
    last = min(asked.number("to", upto), upto)
    first = max(asked.number("from", last - MESSAGES), oldest)
    step = asked.number("step", 0) or max(1, (last - first) // POINTS)
    if first > last:
        raise ProblemError(f"from={first} is behind to={last}")
    if (last - first) // step > MOST:
        raise ProblemError(f"step={step}: more than {MOST} points from {first} to {last}")
    # One after the other, so that one world goes on through all of them; who goes away ends it between two.
    samples = [
        await cell.ask(seq, lambda world: _sample(world, kind, name)) for seq in _points(first, last, step)
    ]
    if not any(sample.rows for sample in samples):
        raise NotFoundError(kind, name)
    return SeriesAnswer(
        upto=upto,
        time=time,
        live=False,
        lag=0,
        from_=first,
        to=last,
        step=step,
        seqs=[sample.seq for sample in samples],
        times=[rfc3339(sample.at) for sample in samples],
        pending=[sample.rows[0].pending if sample.rows else 0 for sample in samples],
        admitted=[sample.rows[0].admitted if sample.rows else 0 for sample in samples],
        lines=_lines(samples),
    )


def _points(first: int, last: int, step: int) -> list[int]:
    found = list(range(first, last + 1, step))
    return found if found[-1] == last else [*found, last]


def _sample(world: World, kind: str, name: str) -> _Sample:
    tree = QuotaTree(world)
    nodes = tree.tree.cluster_queues if kind == "ClusterQueue" else tree.tree.cohorts
    node = nodes.get(name)
    rows = [] if node is None else [tree.node_row(one, 0) for one in (node, *node.children)]
    return _Sample(world.seq, world.at, rows)


def _lines(samples: list[_Sample]) -> list[SeriesLine]:
    """Return a line for each member, flavor and resource that was there at any of the points."""
    lines: dict[tuple[str, str, str, str], SeriesLine] = {}
    for place, sample in enumerate(samples):
        for row in sample.rows:
            for quota in row.quota:
                key = (row.kind, row.name, quota.flavor, quota.resource)
                line = lines.get(key)
                if line is None:
                    none = amount(quota.resource, 0)
                    measures = ([none] * len(samples) for _ in range(4))
                    line = lines[key] = SeriesLine(
                        row.kind, row.name, quota.flavor, quota.resource, *measures
                    )
                line.nominal[place], line.used[place] = quota.nominal, quota.used
                line.borrowed[place], line.lent[place] = quota.borrowed, quota.lent
    return list(lines.values())
