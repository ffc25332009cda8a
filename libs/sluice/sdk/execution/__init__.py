"""The executor as a machine: without input, output or clock; `sluice.sdk._executor` is a shell around it.

    machine = Machine(Identity(name="slurm-1", instance="7f3a"), ExecutorSettings(capacity=10))
    actions = machine.begin(now)                       # do them all, in order
    actions = machine.answer(ask.number, Stored(1), now)    # of each `Ask`
    actions = machine.dispatched([(entry.job, entry)], now)
    actions = machine.tick(now)                        # at `Machine.deadline`

Nothing is drawn, nothing is read beside what it is told: the same calls lead to the same actions.
"""

from ._book import ExecutorSettings, Identity
from ._machine import Machine
from ._outcome import Held, Outcome

__all__ = ["ExecutorSettings", "Held", "Identity", "Machine", "Outcome", "actions"]
