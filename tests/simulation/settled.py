"""What must hold once all is quiet: projections, view and rebuilt states agree with the leaders."""

from typing import Any

import msgspec

from sluice.core.scheduler.invariants import violations
from sluice.core.slices.limits import correction
from sluice.events.base import WorkloadKey
from sluice.log.fold import Fold
from tests.support.log_check import wrong_with
from tests.support.shown_usage import wrong_places, wrong_reasons

from .cell import Cell
from .log import steps_of
from .projecting import alike
from .queries import Queries
from .replica import Service


def check_settled(cell: Cell, queries: Queries) -> None:
    """Look at a cell in which nobody has anything to do."""
    for difference in queries.differences():
        cell.watchman.fail("view", difference)
    queries.everything()
    for difference in queries.rebuilt():
        cell.watchman.fail("view", difference)
    _answers(cell)
    _states(cell)
    _activity(cell, queries)
    _places(cell, queries)
    _projections(cell)
    _rebuilt(cell)
    _truth(cell)
    if cell.log.encoded:
        # As bytes the log is one that the commands of `sluice replay` read.
        for text in wrong_with(cell.log.entries):
            cell.watchman.fail("replay", text)


def _answers(cell: Cell) -> None:
    """Every accepted message has an answer."""
    slices, checks = cell.services["slices"].holder, cell.services["checks"].holder
    assert slices is not None
    assert checks is not None
    if slices.state.inbox or slices.state.presence:
        left = list(slices.state.inbox_of)[:5]
        cell.watchman.fail("every-message-answered", f"slices have not answered {left}")
    if checks.state.verdicts or checks.state.presence:
        cell.watchman.fail("every-message-answered", f"checks: {list(checks.state.verdict_of)[:5]}")


def _states(cell: Cell) -> None:
    scheduler = cell.services["scheduler"].holder
    assert scheduler is not None
    slices = cell.services["slices"].holder
    assert slices is not None
    for key, job in slices.state.jobs.items() if slices.state.limits_used else ():
        if correction(slices.state, job, 0) is not None:
            cell.watchman.fail("limited", f"{key} is not what its limit ranges make of it, nor marked so")
    found = violations(scheduler.state)
    if found:
        cell.watchman.fail("state", found[0])


def _activity(cell: Cell, queries: Queries) -> None:
    """All agree on what is switched on: whoever switches, and whatever crosses on its way."""
    leaders = {writer: service.holder for writer, service in cell.services.items()}
    scheduler, slices, variants = (leaders[name] for name in ("scheduler", "slices", "variants"))
    assert scheduler is not None
    assert slices is not None
    assert variants is not None
    parents, families = scheduler.state.world.families, variants.state.families
    said: dict[WorkloadKey, set[bool]] = {}
    for key, workload in scheduler.state.world.workloads.items():
        said.setdefault(key, set()).add(workload.active)
    for key, job in slices.state.by_workload.items():
        record = job.record if job.record.key == key else job.pending
        said.setdefault(key, set()).add(record.active)
    for key in parents:
        family = families[key]
        said.setdefault(key, set()).add(family.active)
        for variant in family.variants.values():
            said.setdefault(variant.key, set()).add(variant.active)
    for key, active in said.items():
        shown = queries.world.view.workloads[key]
        if shown.finished_at is None and {*active, shown.active} != {shown.active}:
            cell.watchman.fail("activity", f"{key} is active: {active}, and shown so: {shown.active}")


def _places(cell: Cell, queries: Queries) -> None:
    """Those that wait are shown in the order in which the scheduler has them, each with its own reason."""
    scheduler = cell.services["scheduler"].holder
    assert scheduler is not None
    for text in [*wrong_places(queries.world.view, scheduler.state), *wrong_reasons(queries.world.view)]:
        cell.watchman.fail("view", text)


def _projections(cell: Cell) -> None:
    """What executors and controllers are told is what the leaders say."""
    for writer, shown in cell.shown.items():
        holder = cell.services[writer].holder
        assert holder is not None
        wanted = dict(shown.projection.everything(holder.state))
        there = {key: msgspec.structs.replace(kept.value, seq=0) for key, kept in shown.bucket.values.items()}
        if not shown.bucket.whole:
            cell.watchman.fail("projections", f"{writer}: the bucket is not whole")
        both = {**wanted, **there}
        key = next((key for key in both if not alike(wanted.get(key), there.get(key))), "")
        if key:
            text = f"{writer}: {key} is {there.get(key)}, should be {wanted.get(key)}"
            cell.watchman.fail("projections", text)


def _rebuilt(cell: Cell) -> None:
    """A state rebuilt from the log is the live one, byte for byte; so is a stand-by's (law 1)."""
    for service in cell.services.values():
        holder = service.holder
        assert holder is not None
        decider = service.decider()
        live = decider.dump(holder.state)
        rebuilt = decider.dump(_folded(cell, service).state)
        if rebuilt != live:
            cell.watchman.fail("rebuild", f"{service.writer}: {_difference(live, rebuilt)}")
        if decider.dump(decider.load(live)) != live:
            cell.watchman.fail("snapshot", f"{service.writer}: a snapshot does not come out as it went in")


def _folded(cell: Cell, service: Service) -> Fold[Any]:
    """Return a fold of all that the service reads: the watchman's, who has folded every entry.

    What was written as bytes is read once more, and so is what nobody watches.
    """
    stander = cell.watchman.standers.get(service.writer)
    if stander is None or cell.log.encoded:
        fold: Fold[Any] = Fold(service.decider(), decode=steps_of)
        for _ in fold.take_in(service.entries):
            pass
    else:
        fold = stander.fold
    fold.release()
    return fold


def _difference(live: bytes, rebuilt: bytes) -> str:
    at = next((n for n, (a, b) in enumerate(zip(live, rebuilt, strict=False)) if a != b), 0)
    return f"live {live[max(0, at - 60) : at + 60]!r}, rebuilt {rebuilt[max(0, at - 60) : at + 60]!r}"


def _truth(cell: Cell) -> None:
    """Nothing runs on that nobody knows of."""
    # Of a job that is paused (no pods are wanted) nothing runs, and it goes on when it is resized.
    left = [proc for proc in cell.truth.all() if any(pods.running for pods in proc.pods.values())]
    if left:
        cell.watchman.fail("nothing-left-running", "; ".join(map(str, left[:3])))


__all__ = ["check_settled"]
