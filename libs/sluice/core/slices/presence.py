"""Presence of agents: attempts that a lost one has claimed have stopped (G8).

An agent is lost when nobody has heard of it for too long: `log.runtime.presence` sees to that, and writes
what it has seen into the log.
"""

from sluice.core.step_size import Room
from sluice.core.workload.reasons import NODE_FAILURES
from sluice.events.base import Event, Micros
from sluice.events.job import Away, Seen
from sluice.events.slices import ExecutorAway, ExecutorLost, ExecutorSeen, InputsIgnored, Rejected

from .intake import Presence
from .reports import stopped
from .responses import DUPLICATE, add_to_step
from .state import State


def answer_presence(state: State, presence: Presence, at: Micros, events: list[Event], room: Room) -> None:
    """Answer one message: each job of an agent that is lost has stopped, for the reason NodeFailures."""
    cause, executor = presence.seq, presence.executor
    if presence.data is None:
        events.append(
            Rejected(
                cause=cause,
                subject=presence.subject,
                event_type=presence.event_type,
                errors=presence.errors,
            )
        )
        return
    if isinstance(presence.data, Seen):
        there = state.executors.get(executor) and executor not in state.away
        events.append(_duplicate(cause) if there else ExecutorSeen(cause=cause, executor=executor))
        return
    if isinstance(presence.data, Away):
        # Who has no attempt that could stay with it is there, or lost.
        away = executor in state.claimed and executor not in state.away
        events.append(ExecutorAway(cause=cause, executor=executor) if away else _duplicate(cause))
        return
    message = f'The agent "{executor}" was lost'
    for key in state.claimed.get(executor, ()):
        if not add_to_step(stopped(state, state.jobs[key], cause, at, NODE_FAILURES, message), events, room):
            return
    if events or state.executors.get(executor) or executor in state.away:
        events.append(ExecutorLost(cause=cause, executor=executor))
    else:
        events.append(_duplicate(cause))


def _duplicate(cause: int) -> InputsIgnored:
    return InputsIgnored(cause=cause, seqs=(cause,), reason=DUPLICATE)
