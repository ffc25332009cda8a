"""What agents that come and go mean for jobs: those that a lost one runs have stopped (G8).

An agent is lost when nobody has heard of it for too long: `log.runtime.presence` sees to that, and writes
what it has seen into the log.
"""

from sluice.core.step_size import Room
from sluice.core.workload.reasons import NODE_FAILURES
from sluice.events.base import Event, Micros
from sluice.events.job import Lost
from sluice.events.slices import ExecutorLost, ExecutorSeen, InputsIgnored, Rejected

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
    if not isinstance(presence.data, Lost):
        if state.executors.get(executor):
            events.append(InputsIgnored(cause=cause, seqs=(cause,), reason=DUPLICATE))
        else:
            events.append(ExecutorSeen(cause=cause, executor=executor))
        return
    message = f'The agent "{executor}" was lost'
    for key in state.claimed.get(executor, ()):
        if not add_to_step(stopped(state, state.jobs[key], cause, at, NODE_FAILURES, message), events, room):
            return
    if events or state.executors.get(executor):
        events.append(ExecutorLost(cause=cause, executor=executor))
    else:
        events.append(InputsIgnored(cause=cause, seqs=(cause,), reason=DUPLICATE))
