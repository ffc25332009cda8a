"""slice-aggregator's decider: jobs in, workloads out, and what each job should be doing.

It reads the messages about jobs and the presence of agents, and what the other services say of its
workloads; it writes the life of workloads and the starts and stops of jobs (`events.slices`).

    JobSubmitted -> WorkloadCreated;  Admitted -> JobResumed;  Evicted -> JobSuspended;
    JobStopped -> WorkloadStopped;    JobFinished -> WorkloadFinished;  JobDeleted -> WorkloadDeleted

The state is in `state`, decoding in `intake` and `submission`, the fold in `fold`, the rules in `decide` and
`presence`, the published projection in `dispatch`, snapshots in `snapshot`.
"""

from collections.abc import Sequence
from itertools import islice
from typing import ClassVar

from sluice.core.step_size import Room
from sluice.core.timing import MICROS_PER_S
from sluice.events.base import Event, JobKey, Micros
from sluice.events.ids import seq_of
from sluice.events.slices import WorkloadDeleted

from . import snapshot
from .decide import answer, job_events
from .fold import HANDLERS
from .limits import adjusted
from .presence import answer_presence
from .responses import MAX_EVENTS, add_to_step, forgotten
from .state import Finished, Job, State, Todo

__all__ = ["SliceAggregator"]

MAX_INPUT_BYTES = 1024 * 1024
"""After so much, the next message has its turn in another step."""

PORTION, PORTION_BYTES = 50, 64 * 1024
"""After so many messages of the backlog, or so much, others have their turn: some 5 ms of work."""

_COMES_FIRST = (Todo.RESIZE, Todo.GROW, Todo.FORGET_SLICE)
"""What decides which of a job's slices the next message is about."""


class SliceAggregator:
    """Decides what becomes of jobs."""

    writer: ClassVar[str] = "slices"
    reads: ClassVar[frozenset[str]] = frozenset(
        {"job.>", "presence.agent.*", "config", "scheduler", "checks", "variants"}
    )
    state_version: ClassVar[int] = 17

    initial = staticmethod(State)

    def apply(self, state: State, event: Event, seq: int, at: Micros) -> None:
        """Fold one event; those of no concern here are passed over."""
        if state.step != (seq, at):
            state.begin_step(seq, at)
        handler = HANDLERS.get(type(event))
        if handler is not None:
            handler(state, event, seq, at)

    def decide(self, state: State, at: Micros) -> Sequence[Event]:
        """Return what follows from what came in since the state was last settled.

        1. Messages about live jobs: at most one of each job, since the next one depends on its outcome.
        2. What jobs without a message need.
        3. Waiting workloads that limit ranges make something else of.
        4. Agents that came or went, after the messages that say what they run.
        5. Finished jobs whose time is over, and then replaced slices.
        6. A portion of the messages about jobs that do not live: nobody waits for a flood of submissions.
        """
        events: list[Event] = []
        busy: set[JobKey] = set()
        room = Room()
        if state.first and not _answer_messages(state, at, events, busy, room):
            return events
        if state.todo:
            for key in state.todo:
                if key not in busy and not add_to_step(job_events(state, state.jobs[key], at), events, room):
                    return events
        if state.adjusting:
            for key in state.adjusting:
                if (
                    key not in busy
                    and key not in state.todo
                    and not add_to_step(adjusted(state, key), events, room)
                ):
                    return events
        if not events:
            if state.presence:
                answer_presence(state, state.presence[0], at, events, room)
            elif state.finished:
                _forget_finished(state, at, events)
            if events or (events := _forget_slices(state, at)):
                return events
        if state.backlog:
            _take_portion(state, at, events, room)
        return events

    def deadline(self, state: State) -> Micros | None:
        """Return when the next finished job or replaced slice is to be forgotten for its age."""
        times = [state.expiry[0][0]] if state.expiry else []
        oldest = next(iter(state.finished.values()), None)
        retention = state.config.retain_finished_jobs_seconds
        if oldest is not None and retention is not None:
            times.append(oldest.finished_at + retention * MICROS_PER_S)
        kept = state.config.workload_slice_retention_seconds
        if state.aging and kept is not None:
            times.append(next(iter(state.aging.values()))[1] + kept * MICROS_PER_S)
        return min(times, default=None)

    dump = staticmethod(snapshot.dump)
    load = staticmethod(snapshot.load)


def _answer_messages(state: State, at: Micros, events: list[Event], busy: set[JobKey], room: Room) -> bool:
    """Answer messages; tell whether there is room for anything else in the step."""
    size = 0
    # What an agent says after it was lost is not over with its loss.
    before = state.presence[0].seq if state.presence else None
    for key in state.first:
        queue, job = state.inbox[key], state.jobs.get(key)
        if job is not None and (job.todo in _COMES_FIRST or job.pending_todo is Todo.WITHDRAW):
            continue  # the next change starts from what this one leads to
        for inbound in queue.values():
            if before is not None and inbound.seq > before:
                break
            answers = answer(state, key, inbound, at)
            if answers:
                if not room.takes(answers):
                    return False
                events += answers
                busy.add(key)
                size += len(inbound.payload)
                break
        if len(events) >= MAX_EVENTS or size >= MAX_INPUT_BYTES:
            break
    return True


def _take_portion(state: State, at: Micros, events: list[Event], room: Room) -> None:
    """Answer the messages of the backlog whose turn it is."""
    size = 0
    for key in islice(state.backlog, PORTION):
        inbound = next(iter(state.inbox[key].values()))
        answers = answer(state, key, inbound, at)
        if not room.takes(answers):
            return
        events += answers
        size += len(inbound.payload)
        if size >= PORTION_BYTES or len(events) >= MAX_EVENTS:
            return


def _forget_finished(state: State, at: Micros, events: list[Event]) -> None:
    excess = len(state.finished) - state.config.retain_finished_jobs_count
    retention = state.config.retain_finished_jobs_seconds
    over = None if retention is None else at - retention * MICROS_PER_S
    gone: set[JobKey] = set()
    # Time brings it about; the chain of causes leads back to the job's submission.
    for finished in state.finished.values():
        if len(events) >= MAX_EVENTS:
            return
        if excess <= len(gone) and (over is None or finished.finished_at > over):
            break
        gone.add(finished.key)
        events += forgotten(finished, _origin(finished))
    if state.expiry and state.expiry[0][0] <= at:
        key = state.expiry[0][1]
        if key not in gone:
            events += forgotten(state.finished[key], _origin(state.finished[key]))


def _origin(owner: Job | Finished | None) -> int:
    """Return the sequence of the job's submission."""
    return seq_of(owner.uid) if owner is not None and owner.uid else 0


def _forget_slices(state: State, at: Micros) -> list[Event]:
    """WS8: replaced slices whose time is over, whether their job lives or not."""
    retention = state.config.workload_slice_retention_seconds
    if retention is None:
        return []
    over = at - retention * MICROS_PER_S
    events: list[Event] = []
    for key, (name, replaced_at) in state.aging.items():
        if replaced_at > over or len(events) >= MAX_EVENTS:
            break
        owner = state.jobs.get(name) or state.finished.get(name)
        events.append(WorkloadDeleted(cause=_origin(owner), workload=key))
    return events
