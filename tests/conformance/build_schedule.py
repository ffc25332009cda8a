"""One recorded scheduling cycle: run it on ours, and compare what users can see of it."""

from collections.abc import Iterable, Mapping

from sluice.core.cycle.cycle import Cycle
from sluice.core.cycle.entry import Entry, Outcome
from sluice.core.cycle.events import decisions
from sluice.core.queueing.pending_queue import PendingQueue
from sluice.core.scheduler.decider import Scheduler, run_cycles
from sluice.core.scheduler.state import SchedulerState, is_barred
from sluice.events.base import Event
from sluice.events.scheduler import Admitted, BlockedOnPreemptionGates, Evicted, Preempted, QuotaReserved
from tests.support.attempts import attempts_text

from .build import admissions, micros, now_of, state_of, wanted_admission
from .framework import Json, compare

ZERO_TIME_WAIT_S = 9223372037
"""How long a workload without creation time has waited, to the reference implementation."""

Conditions = dict[str, tuple[str, str, str]]
"""Type -> (status, reason, message)."""


class Run:
    """A case's state after one cycle, with the cycle's entries and events."""

    def __init__(self, case: Json, header: Json) -> None:
        self.case = case
        self.state = state_of(case, header)
        self.inputs = {_key(manifest): manifest for manifest in case["input"]["Workload"]}
        self.entries: list[Entry] = []
        self.events: list[Event] = []
        self.cycles: list[Cycle] = []

    def cycle(self) -> None:
        """Decide once over all trees, and fold what was decided."""
        found = run_cycles(self.state)
        self.cycles = [cycle for _, cycle in found]
        self.entries = [entry for cycle in self.cycles for entry in cycle.entries]
        self.events = decisions(self.state.world, found)
        for event in self.events:
            Scheduler().apply(self.state, event, 0, now_of(self.case))

    # What users see

    def conditions(self) -> dict[str, Conditions]:
        """Return the conditions of every workload as they now stand."""
        found = {key: _given(manifest) for key, manifest in self.inputs.items()}
        for queue in self.state.pending.queues.values():
            for workload in queue.in_order():
                peers = workload.peers
                if peers is not None and is_barred(peers.key):
                    # Known without being looked at in a cycle.
                    found[workload.key]["QuotaReserved"] = ("False", peers.reason, peers.message)
                    found[workload.key]["Admitted"] = (
                        "False",
                        "NoReservation",
                        "The workload has no reservation",
                    )
        for entry in self.entries:
            key = entry.workload.key
            if entry.outcome is Outcome.ADMITTED:
                found[key]["QuotaReserved"] = (
                    "True",
                    "QuotaReserved",
                    f"Quota reserved in ClusterQueue {entry.cq.name}",
                )
                found[key]["Admitted"] = (
                    "False",
                    "UnsatisfiedAdmissionChecks",
                    "The workload has not all checks ready",
                )
            else:
                found[key]["QuotaReserved"] = ("False", entry.reason, entry.message)
                found[key]["Admitted"] = ("False", "NoReservation", "The workload has no reservation")
        for event in self.events:
            match event:
                case Admitted(workload=key):
                    found[key]["Admitted"] = ("True", "Admitted", "The workload is admitted")
                case Evicted(workload=key, reason=reason, message=message):
                    found[key]["Evicted"] = ("True", reason, message)
                case Preempted(workload=key, rule=rule, message=message):
                    found[key]["Preempted"] = ("True", rule, message)
                case BlockedOnPreemptionGates(workload=key, message=message):
                    found[key]["BlockedOnPreemptionGates"] = ("True", "PreemptionGated", message)
        return found

    def left(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Return (cluster queue -> workloads that compete, cluster queue -> those set aside)."""
        skipped = {entry.workload.key for entry in self.entries if entry.outcome is Outcome.SKIPPED}
        active: dict[str, list[str]] = {}
        inadmissible: dict[str, list[str]] = {}
        for name, queue in self.state.pending.queues.items():
            for workload in queue.in_order():
                competes = workload.key in skipped or _competes(queue, workload.peers)
                (active if competes else inadmissible).setdefault(name, []).append(workload.key)
        return active, inadmissible

    def recorded_events(self) -> list[Json]:
        """Return our events as the Kubernetes events that they stand for."""
        found: list[Json] = []
        entries = {entry.workload.key: entry for entry in self.entries}
        for event in self.events:
            match event:
                case QuotaReserved(workload=key):
                    found.append(_event(key, "QuotaReserved", self._reserved_text(entries[key])))
                case Admitted(workload=key):
                    queue = entries[key].cq.name
                    text = f"Admitted by ClusterQueue {queue}, wait time since reservation was 0s"
                    found.append(_event(key, "Admitted", text))
                case Preempted(workload=key, preemptor=preemptor, message=message):
                    found.append(_event(key, "EvictedDueToPreempted", message))
                    found.append(_event(key, "Preempted", message))
                    found.append(_event(preemptor, "PreemptedWorkload", message))
        return found + [
            _event(entry.workload.key, entry.reason, entry.message, kind="Warning")
            for entry in self.entries
            if entry.outcome is not Outcome.ADMITTED
        ]

    def _reserved_text(self, entry: Entry) -> str:
        created = self.inputs[entry.workload.key]["metadata"].get("creationTimestamp")
        wait = ZERO_TIME_WAIT_S
        if created is not None:
            wait = (now_of(self.case) - micros(created)) // 1_000_000
        considered = attempts_text(entry.proposal.assignment)
        return f"Quota reserved in ClusterQueue {entry.cq.name}, wait time since queued was {wait}s" + (
            f"; Flavors considered: {considered}" if considered else ""
        )


def check(case: Json, header: Json) -> None:
    """Run the case's cycle and compare everything that it expects.

    Raises:
        AssertionError: names the first difference.
    """
    run = Run(case, header)
    run.cycle()
    check_conditions(run, case["expect"]["wantWorkloads"])
    check_admissions(run.state, case["expect"]["wantAssignments"])
    _check_left(run)
    _check_events(run)
    skipped = {name: count for cycle in run.cycles for name, count in cycle.skipped_preemptions.items()}
    wanted = case["expect"]["wantSkippedPreemptions"] or {}
    compare({name: skipped.get(name, 0) for name in wanted}, wanted, "skipped preemptions")
    again = {name: {how: 1} for cycle in run.cycles for name, how in cycle.recomputations.items()}
    wanted = case["expect"]["wantPreemptionTargetRecomputations"] or {}
    compare({name: again.get(name, {}) for name in wanted}, wanted, "recomputations")


def check_conditions(run: Run, wanted: Iterable[Json]) -> None:
    """Compare conditions of all workloads; those that the case does not expect must not be there."""
    ours = run.conditions()
    for manifest in wanted:
        key = _key(manifest)
        compare(ours[key], _given(manifest), key)


def check_admissions(state: SchedulerState, wanted: Mapping[str, Json] | None) -> None:
    compare(
        admissions(state),
        {key: wanted_admission(value) for key, value in (wanted or {}).items()},
        "admission",
    )


def _check_left(run: Run) -> None:
    expect = run.case["expect"]
    for ours, wanted, name in zip(
        run.left(),
        (expect["wantLeft"], expect["wantInadmissibleLeft"]),
        ("left", "inadmissible"),
        strict=True,
    ):
        compare(
            {queue: sorted(keys) for queue, keys in ours.items()},
            {queue: sorted(keys) for queue, keys in (wanted or {}).items()},
            name,
        )


def _check_events(run: Run) -> None:
    expect = run.case["expect"]
    if not expect["eventsChecked"]:
        return
    how = expect.get("eventsCompare") or {}
    keys = ("name", "namespace", "reason", "type") + (() if how.get("messageIgnored") else ("message",))
    ours = [{key: event[key] for key in keys} for event in run.recorded_events()]
    wanted = [{key: event.get(key, "") for key in keys} for event in expect["wantEvents"] or ()]
    if how.get("orderIgnored"):
        ours.sort(key=repr)
        wanted.sort(key=repr)
    compare(ours, wanted, "events")


def _competes(queue: PendingQueue, peers: object) -> bool:
    found = next(p for p in queue.classes.values() if p is peers)
    return not found.parked or (queue.strict and not found.aside)


def _key(manifest: Json) -> str:
    return f"{manifest['metadata'].get('namespace', '')}/{manifest['metadata']['name']}"


def _given(manifest: Json) -> Conditions:
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in conditions}


def _event(key: str, reason: str, message: str, *, kind: str = "Normal") -> Json:
    namespace, _, name = key.partition("/")
    return {"namespace": namespace, "name": name, "reason": reason, "type": kind, "message": message}
