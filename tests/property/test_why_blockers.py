"""What `why` says of those who hold what is short is what the scheduler goes by (DB2).

A blocker is named only if it is one: with that alone away, the workload goes on to preempt.
"""

import pytest

from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.workload.pending_reasons import WAITING_FOR_PREEMPTED
from sluice.core.world.workload import Workload
from sluice.events.base import Micros
from sluice.events.variants import PreemptionGateOpened
from sluice.log.fold import Fold
from sluice.replay.explain.candidates import NOT_ENOUGH
from sluice.replay.explain.report import Report
from sluice.replay.explain.sandbox import Sandbox
from sluice.replay.explain.why import explain
from sluice.replay.source.source import ListSource
from sluice.replay.source.time_travel import steps
from tests.property.test_contended_families import Contended, Sharing

GATE = "gate kueue.x-k8s.io/concurrent-admission is closed"


@pytest.mark.parametrize(("world", "least"), [(Contended, 16), (Sharing, 4)])
def test_a_closed_gate_is_named_where_it_is_what_keeps(world: type[Contended], least: int) -> None:
    """Opening it alone makes the workload preempt; who may be preempted as things are, has been asked for."""
    gates = others = 0
    for seed in range(500, 524):
        played = world(seed)
        played.play(20)
        fold = Fold(Scheduler())
        source = ListSource(played.world.log)
        for seq, _ in steps(source, fold, source.end):
            state = fold.state
            if state.pending.busy or state.lifecycle.due:
                continue  # it has not been looked at
            for workload in [w for w in state.world.workloads.values() if w.peers is not None]:
                report = explain(state, workload.key, seq, fold.at, help_=False)
                whys = [candidate.why for candidate in report.candidates]
                blamed = any(GATE in why for why in whys)
                if blamed:
                    assert _preempts_with_its_gate_open(state, workload, seq, fold.at), (seq, report)
                gates += blamed
                others += bool(whys) and not blamed
                _consistent(workload, report)
    assert min(gates, others) >= least, (gates, others)


def _preempts_with_its_gate_open(state: SchedulerState, workload: Workload, seq: int, at: Micros) -> bool:
    assert workload.record.parent is not None
    opened = PreemptionGateOpened(
        cause=0,
        parent=workload.record.parent,
        workload=workload.key,
        gate="kueue.x-k8s.io/concurrent-admission",
    )
    found = Sandbox(state, seq, at).attempt((opened,), workload.key)
    # Somebody whom it would preempt may be leaving already.
    return bool(found.preempted) or found.reason == WAITING_FOR_PREEMPTED


def _consistent(workload: Workload, report: Report) -> None:
    """Who was looked at and waits, with all gates open, has found nobody to preempt for what it lacks."""
    one = len(report.numbers) == 1
    for candidate in report.candidates:
        assert candidate.allowed == (not candidate.why)
        assert not (one and candidate.allowed and report.rule == "WaitingForQuota"), (workload.key, report)
        if one and candidate.why == NOT_ENOUGH:
            assert report.rule not in ("AdmissionGated", "WaitingForPreemptedWorkloads"), report
