"""Shrinking: fewer steps, plainer choices and fewer objects while the same invariant breaks."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .choices import Steps
from .run import Outcome, Run

Progress = Callable[[int, int], None]


@dataclass
class Shrinker:
    """Tries ever shorter histories of one failure for at most *seconds*."""

    outcome: Outcome
    seconds: float = 60.0
    progress: Progress | None = None
    tries: int = 0
    best: Steps = field(init=False)
    without: frozenset[tuple[str, str]] = frozenset()

    def __post_init__(self) -> None:
        self.best = self.outcome.choices
        self._until = time.monotonic() + self.seconds

    def shrink(self) -> Outcome:
        """Return the shortest history found that breaks the same invariant."""
        self._adopt(self._run(self.best, self.without))
        before = None
        while before != (self.size, self.without) and not self._over:
            before = (self.size, self.without)
            self._drop_steps()
            self._drop_objects()
        found = self._run(self.best, self.without)
        assert found is not None
        return found

    @property
    def size(self) -> int:
        return len(self.best)

    @property
    def _over(self) -> bool:
        return time.monotonic() > self._until

    def _run(self, script: Steps, without: frozenset[tuple[str, str]]) -> Outcome | None:
        self.tries += 1
        outcome = self.outcome
        run = Run(outcome.seed, len(script) + 1, script, encoded=False, without=without)
        found = run.play()
        if found.invariant != outcome.invariant:
            return None
        if self.progress is not None:
            self.progress(self.tries, len(found.choices))
        found.run = run
        return found

    def _adopt(self, found: Outcome | None) -> bool:
        """Keep a history that fails as well: up to where it fails, without steps that did nothing."""
        if found is None:
            return False
        if len(found.choices) <= self.size:
            self.best = [list(step) for step in found.choices]
        return True

    def _drop_steps(self) -> None:
        chunk = max(1, (self.size - 1) // 2)
        while not self._over:
            end = self.size
            while end > 1 and not self._over:
                begin = max(1, end - chunk)
                shorter = self.best[:begin] + self.best[end:]
                found = self._run(shorter, self.without)
                if found is not None and len(found.choices) < self.size:
                    self._adopt(found)
                end = min(begin, self.size)
            if chunk == 1:
                return
            chunk = max(1, chunk // 2)

    def _drop_objects(self) -> None:
        run = self.outcome.run
        if run is None:
            return
        for key in list(run.actions.grammar.objects):
            if key in self.without or self._over:
                continue
            without = self.without | {key}
            found = self._run(self.best, without)
            if found is not None:
                self.without = without
                self._adopt(found)


__all__ = ["Shrinker"]
