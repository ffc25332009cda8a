"""One replica of a service as a machine without I/O: what it folds, decides, and has to commit.

The runner drives it with a log, a lease and a clock; the simulator of the whole cell with a queue of
choices. A life goes

    begin(snapshot) -> follow(entries)* -> lead() -> { hear(entries) | decide(at) | take() | written(...) }*

and begins anew after anything raised `Fenced`. Of what was decided, a part is always the next commit: one
is in flight, and what is decided meanwhile goes out with the next (group commit).
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from sluice.events.base import Micros
from sluice.events.commit import Step
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold

from .hooks import Hooks

log = structlog.get_logger("sluice.log.replica")


class Fenced(Exception):
    """The end of a leader's life: another leads, and the state may hold what never was decided."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A state that can be saved: after *steps* decided in this life, of inputs up to *upto*, at time *at*."""

    steps: int
    upto: int
    at: Micros


class Replica[S]:
    """One replica of the service that *decider* is.

    *owns*: tells whether a commit that was read, and not reported as written yet, is the one in flight.
    *mark_inputs*: after so many inputs without a decision, a step without events says how far it has come.
    """

    def __init__(
        self,
        decider: Decider[S],
        owns: Callable[[Entry], bool],
        hooks: Sequence[Hooks[S]] = (),
        *,
        mark_inputs: int = 1_000,
    ) -> None:
        self.decider, self.hooks = decider, tuple(hooks)
        self.fold: Fold[S] = Fold(decider)
        self.leads = False
        self.settled = False
        """Whether there was nothing more to decide when it was last asked."""
        self.due: Micros | None = None
        """When to decide although nothing happens; None: not before something does."""
        self.pending: list[Step] = []
        """Decided, and not part of a commit yet."""
        self.decided = 0
        """Steps decided since it leads."""
        self.written_steps = 0
        """Of these, the steps in the log."""
        self._owns, self._mark_inputs = owns, mark_inputs
        self._effects: deque[list[object]] = deque()
        self._in_flight = 0
        self._inputs_since_step = 0
        self._cut: int | None = None

    # A new life

    def begin(self, fold: Fold[S]) -> None:
        """Forget everything; go on from *fold*: a snapshot's, or an empty one."""
        self.fold = fold
        self.leads = self.settled = False
        self.due = None
        self.pending, self._in_flight, self._inputs_since_step = [], 0, 0
        self._effects.clear()
        self._cut = None
        for hook in self.hooks:
            hook.rebuilding(fold.upto, fold.own)

    def follow(self, entries: Sequence[Entry]) -> None:
        """Fold as a stand-by: own commits as they come, inputs when a commit says that they were seen."""
        for seq, step in self.fold.take_in(entries):
            for hook in self.hooks:
                hook.replayed(self.fold.state, step, seq)

    # Leading

    def lead(self) -> None:
        """Lead from here on. Every commit of the chain must have been folded."""
        fold = self.fold
        self._inputs_since_step = len(fold.held)
        fold.release()
        self.decided = self.written_steps = 0
        self.leads = True
        for hook in self.hooks:
            hook.leading(fold.state, fold.own)

    def end(self) -> None:
        """Lead no more: let nothing out."""
        if self.leads:
            self.leads = False
            for hook in self.hooks:
                hook.following()

    def hear(self, entries: Sequence[Entry]) -> int:
        """Fold inputs at once; return how many. Own commits come back and are only checked.

        Raises:
            Fenced: another leader has committed.
        """
        fold, writer, count = self.fold, self.decider.writer, 0
        for entry in entries:
            if entry.suffix == writer:
                if entry.seq > fold.own and not self._owns(entry):
                    raise Fenced(f"another leader's commit at seq {entry.seq}")
            elif entry.seq > fold.upto:
                fold.fold(entry)
                count += 1
        self._inputs_since_step += count
        if count:
            self.settled = False
        return count

    def decide(self, at: Micros) -> Step | None:
        """Decide one step; None when there is nothing more to decide, for now."""
        fold = self.fold
        at = max(at, fold.at)
        self.settled = False
        step = fold.decide(at)
        if step is not None:
            self._took(step)
            return step
        if self._inputs_since_step >= self._mark_inputs:
            mark = Step(upto=fold.upto, at=at)
            fold.apply_own(mark)
            self._took(mark)
        self.settled = True
        self._set_due(at)
        for hook in self.hooks:
            hook.settled(fold.state, fold.upto)
        return None

    def _took(self, step: Step) -> None:
        """Keep a step, folded already, for the next commit."""
        self.pending.append(step)
        self.decided += 1
        self._inputs_since_step = 0
        if self.hooks:
            self._effects.append([hook.decided(self.fold.state, step) for hook in self.hooks])

    def _set_due(self, decided_at: Micros) -> None:
        self.due = due = self.decider.deadline(self.fold.state)
        if due is not None and due <= decided_at:
            # It was due, and nothing was decided: asking again at once would go on for ever.
            log.warning("deadline passed without a decision", writer=self.decider.writer, due=due)
            self.due = None

    # Committing

    @property
    def idle(self) -> bool:
        """Whether this is a leader with nothing left to decide or to commit."""
        return self.leads and self.settled and not self.pending and not self._in_flight

    def take(self) -> list[Step]:
        """Return the steps of the next commit, [] if there are none; `written` says what became of them.

        A commit ends where the state was saved (`cut_at`).
        """
        steps = self.pending
        if self._cut is not None and 0 < (cut := self._cut - self.written_steps) < len(steps):
            steps, self.pending = steps[:cut], steps[cut:]
        else:
            self.pending = []
        self._in_flight += len(steps)
        return steps

    def written(self, seq: int, steps: Sequence[Step]) -> None:
        """Take note that the log has the next *steps* of those taken at *seq*."""
        count = len(steps)
        self.fold.own = seq
        self._in_flight -= count
        self.written_steps += count
        if self._cut is not None and self._cut <= self.written_steps:
            self._cut = None
        if self.hooks:
            effects = [self._effects.popleft() for _ in range(count)]
            for index, hook in enumerate(self.hooks):
                hook.committed(self.fold.state, steps, seq, [e[index] for e in effects])

    def moment(self) -> Moment:
        """Return which state this is, so that it can be saved."""
        return Moment(self.decided, self.fold.upto, self.fold.at)

    def cut_at(self, moment: Moment | None) -> None:
        """End a commit at *moment*: its state is of the log only once a commit ends just there."""
        self._cut = None if moment is None else moment.steps


__all__ = ["Replica"]
