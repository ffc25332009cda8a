"""`sluice replay state`: a cell at one moment, from the folds that the question needs, side by side.

found = look(source, 4711)                    # everything, by section
found = look(source, 4711, sections=["checks"])
found = look_at(source, 4711, "train")        # one thing by its name
found = overview(source, 4711)                # what fits a screen
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from heapq import nsmallest
from typing import Any

from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.views import JobView
from sluice.core.views.present.job import current, is_over
from sluice.core.views.present.job import phase_of as job_phase
from sluice.core.views.present.phase import workload_phase
from sluice.core.views.present.unadmitted import in_order
from sluice.log.cell import CellFold, CellState
from sluice.log.runtime import process_pool
from sluice.replay.source.errors import UnknownNameError
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import LONG, Progress, check_range, fold_at, is_long, steps, unhurried

from .describe import (
    SECTIONS,
    about,
    check_plain,
    families,
    job_plain,
    known_names,
    picture,
    sliced,
    split_kind,
)
from .diff import differences
from .queues import node_quota, order_of, phase_of, queue_summary

SHOWN = 20
"""Jobs that an overview lists."""

Plain = dict[str, Any]


def look(
    source: Source,
    seq: int,
    sections: Iterable[str] = SECTIONS,
    *,
    snapshots: bool = True,
    progress: Progress | None = None,
) -> Plain:
    """Return the sections asked for (`SECTIONS`), cluster queues with what they could still have.

    Raises:
        RangeError: the log has no such sequence.
    """
    wanted = list(sections)
    queues = "clusterQueues" in wanted
    works = [partial(_picture, source, seq, snapshots, wanted)]
    if queues:
        works.append(partial(_queues, source, seq, snapshots))
    found = _folded(source, works, progress)
    if queues:
        _merge(found[0]["clusterQueues"], found[1])
    return found[0]


def overview(source: Source, seq: int, *, snapshots: bool = True, progress: Progress | None = None) -> Plain:
    """Return numbers of everything, all cluster queues, and the first jobs that are not over.

    Of a long log only what the scheduler knows: one state to load, and of so many jobs nobody reads a list.
    """
    if is_long(source):
        return of_scheduler(_scheduler(source, seq, snapshots, progress))
    works = [partial(_counts, source, seq, snapshots), partial(_queues, source, seq, snapshots)]
    found, queues = _folded(source, works, progress)
    return found | {"clusterQueues": queues}


def look_at(
    source: Source, seq: int, name: str, *, snapshots: bool = True, progress: Progress | None = None
) -> Plain:
    """Return kind -> key -> what is known, of everything that has the name.

    Raises:
        UnknownNameError: nothing has.
    """
    found: Plain = {}

    def see() -> Iterator[None]:
        found.update(_named(source, seq, snapshots, name, progress))
        if not ("ClusterQueue" in found or "Cohort" in found):
            raise _Enough
        yield

    kind, bare = split_kind(name)
    if kind not in ("", "ClusterQueue", "Cohort") or "/" in bare:
        return _named(source, seq, snapshots, name, progress)
    try:
        with unhurried():
            works = [partial(_node, source, seq, snapshots, name)]
            nodes = process_pool.each(works, progress, apart=is_long(source), meanwhile=see())[0]
    except _Enough:
        return found
    for kind, known in nodes.items():
        if kind in found:
            _merge(found[kind], known)
    return found


class _Enough(Exception):
    """What is asked for has no quota: the scheduler need not be heard."""


def compared(before: CellState, after: CellState, progress: Progress | None = None) -> Plain:
    """Return what changed between two states (`diff.differences`, which says what *progress* hears)."""
    with unhurried():
        return differences(before, after, progress or (lambda _: None))


def both(
    source: Source, first: int, last: int, *, progress: Progress | None = None
) -> tuple[CellState, CellState]:
    """Return the cell at two sequences; what is the same in both is cheap to compare.

    Raises:
        RangeError: the log does not have one of them.
    """
    with unhurried():
        fold = fold_at(source, CellFold(), first, progress=progress)
        if not first <= last <= first + LONG:
            return fold.state, _cell(source, last, True, progress)
        check_range(source, last)
        # Two states from the same rows: what differs is what is opened from here on.
        data = fold.decider.dump(fold.state)
        before, fold.state = fold.decider.load(data), fold.decider.load(data)
        for _ in steps(source, fold, last, progress):
            pass
        return before, fold.state


def _folded(source: Source, works: list[Any], progress: Progress | None) -> list[Plain]:
    with unhurried():
        return process_pool.each(works, progress, apart=is_long(source))


def _cell(source: Source, seq: int, snapshots: bool, progress: Progress | None) -> CellState:
    return fold_at(source, CellFold(), seq, snapshots=snapshots, progress=progress).state


def _scheduler(source: Source, seq: int, snapshots: bool, progress: Progress | None) -> SchedulerState:
    return fold_at(source, Scheduler(), seq, snapshots=snapshots, progress=progress).state


def _picture(
    source: Source, seq: int, snapshots: bool, sections: list[str], progress: Progress | None
) -> Plain:
    def tell(done: int, total: int) -> None:
        if progress is not None:
            # A second pass, as if over the log again.
            progress(source.first + (source.end - source.first) * done // total)

    return picture(_cell(source, seq, snapshots, progress), sections, tell)


def _queues(source: Source, seq: int, snapshots: bool, progress: Progress | None) -> Plain:
    return queues_of(_scheduler(source, seq, snapshots, progress))


def queues_of(state: SchedulerState) -> Plain:
    """Return all cluster queues with their quota."""
    return {n: queue_summary(state, q) for n, q in sorted(state.world.cluster_queues.items())}


def _merge(seen: Plain, known: Plain) -> None:
    """Let what the scheduler knows of quota take the place of plain totals."""
    for name, more in known.items():
        if name in seen:
            found = {k: v for k, v in seen[name].items() if k not in ("nominal", "used", "promised")}
            seen[name] = found | {k: v for k, v in more.items() if k in ("path", "quota", "queue")}


def _counts(source: Source, seq: int, snapshots: bool, progress: Progress | None) -> Plain:
    return counts(_cell(source, seq, snapshots, progress))


def counts(cell: CellState) -> Plain:
    """Return numbers of everything but queues, and the first jobs that are not over."""
    view = cell.view
    shown = nsmallest(SHOWN + 1, (key for key, job in view.jobs.items() if not is_over(job)))
    variants = Counter(str(workload_phase(v)) for parent in families(cell) for v in parent.variants.values())
    return {
        "jobs": Counter(str(job_phase(job)) for job in view.jobs.values())
        | ({"Rejected": len(cell.refused)} if cell.refused else {}),
        "workloads": Counter(str(workload_phase(workload)) for workload in view.workloads.values()),
        "families": {"count": sum(1 for _ in families(cell)), "variants": variants},
        "sliced": {"count": sum(1 for _ in sliced(cell)), "growing": _growing(cell)},
        "checks": {name: check_plain(cell, name) for name in sorted(cell.objects.by_kind["AdmissionCheck"])},
        "presence": picture(cell, ["presence"])["presence"],
        "live": {key: _line(cell, view.jobs[key]) for key in shown[:SHOWN]},
        "more": len(shown) > SHOWN,
    }


def of_scheduler(state: SchedulerState) -> Plain:
    """Return the overview of a long log: what the scheduler knows."""
    world = state.world
    variants = Counter(phase_of(v) for family in world.families.values() for v in family.values())
    return {
        "clusterQueues": queues_of(state),
        "workloads": Counter(phase_of(workload) for workload in world.workloads.values()),
        "families": {"count": len(world.families), "variants": variants},
    }


def _growing(cell: CellState) -> int:
    """Return how many jobs wait for a larger slice beside the one that runs."""
    return sum(sum(1 for w in job.workloads.values() if w.finished_at is None) > 1 for job in sliced(cell))


def _line(cell: CellState, job: JobView) -> Plain:
    """Return a job with what an overview says of its variants, slices and checks."""
    found = job_plain(cell, job)
    workload = current(job)
    if workload.parent:
        found["variants"] = {v.variant: str(workload_phase(v)) for v in in_order(workload)}
    return found


def _named(source: Source, seq: int, snapshots: bool, name: str, progress: Progress | None) -> Plain:
    cell = _cell(source, seq, snapshots, progress)
    found: Plain = {}
    for kind, key, plain in about(cell, name):
        found.setdefault(kind, {})[key] = plain
    if not found:
        raise UnknownNameError(split_kind(name)[1], known_names(cell))
    return found


def _node(source: Source, seq: int, snapshots: bool, name: str, progress: Progress | None) -> Plain:
    """Return what the scheduler knows of a queue or cohort of that name: its quota, who waits in it."""
    state = _scheduler(source, seq, snapshots, progress)
    name = split_kind(name)[1]
    found: Plain = {}
    queue = state.world.cluster_queues.get(name)
    if queue is not None:
        known, order = queue_summary(state, queue), order_of(state, name)
        found["ClusterQueue"] = {name: {"path": known["path"], "quota": known["quota"], "queue": order}}
    nodes = {node.name: node for q in state.world.cluster_queues.values() for node in q.node.path_to_root()}
    node = nodes.get(name)
    if node is not None and not node.is_cluster_queue:
        found["Cohort"] = {name: {"path": node.path(), "quota": node_quota(node)}}
    return found


__all__ = ["both", "compared", "counts", "look", "look_at", "of_scheduler", "overview", "queues_of"]
