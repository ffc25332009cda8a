"""What people are shown of quota and of queues is what the scheduler has."""

from sluice.core.scheduler.state import SchedulerState
from sluice.core.views import View, positions
from sluice.core.views.holding import promised
from sluice.core.views.present.pending import reasons_of, why_pending
from sluice.core.views.present.preemptions import to_make_way_for
from sluice.core.workload.charges import add
from sluice.core.world.pending_preemptions import PENDING
from sluice.replay.views.queues import waiting_in


def wrong_usage(view: View, state: SchedulerState) -> list[str]:
    """Return where the reservations of the view are not the scheduler's; both have read the same log."""
    found = []
    for name, queue in sorted(state.world.cluster_queues.items()):
        charged: dict[tuple[str, str], int] = {}
        for workload in queue.workloads.values():
            add(charged, workload.usage)
        shown = view.cluster_queues[name].reservation if name in view.cluster_queues else {}
        only_promised: dict[tuple[str, str], int] = {}
        for workload in state.world.pending_preemptions.by_queue.get(name, {}).values():
            add(only_promised, workload.usage)
        if name in view.cluster_queues and promised(view, view.cluster_queues[name]) != only_promised:
            found.append(f"{name} is not shown with {only_promised} promised")
        if {fr: n for fr, n in shown.items() if n} != {fr: n for fr, n in charged.items() if n}:
            found.append(f"{name} is shown with {shown}, and charged {charged}")
    for key, held in state.world.workloads.items():
        seen = view.workloads.get(key)
        if seen is None or held.record.parent is not None or key in state.world.families:
            continue
        of = [w for w in state.world.pending_preemptions.preemptors_of(key) if w.preemptions == PENDING]
        told = {preemptor.key for preemptor in to_make_way_for(view, seen)}
        if told != ({w.key for w in of} if held.evicted_at is None else set()):
            found.append(f"{key} is shown as to make way for {sorted(told)}")
    return found


def wrong_places(view: View, state: SchedulerState) -> list[str]:
    """Return where those that wait stand in another order in the view than in the scheduler's queues."""
    found = []
    for name in sorted(state.world.cluster_queues):
        places = positions(view, name)
        shown = sorted((key for key in places if places[key]), key=places.__getitem__)
        queued = [w.key for w in waiting_in(state, name) if places.get(w.key)]
        known = set(queued)
        # A place is a job's: its variants have it together (CA6).
        if [places[key] for key in shown if key in known] != [places[key] for key in queued]:
            found.append(f"{name} is shown as {shown}, and queued as {queued}")
    return found


def wrong_reasons(view: View) -> list[str]:
    """Return where what is said of many at once is not what is said of each of those that wait."""
    found = []
    for local in view.local_queues.values():
        waiting = [view.workloads[key] for key in local.pending]
        at_once = list(reasons_of(view, waiting))
        alone = [why_pending(view, workload)[0] for workload in waiting]
        if at_once != alone:
            found.append(f"{local.key}: {at_once} of all, {alone} of each")
    return found
