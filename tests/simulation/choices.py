"""Every decision of the simulator: drawn from a seed, or taken from a list that was recorded before.

Choices are kept step by step, so that a step can be left out without the later ones meaning something else. A
list that is too short goes on with zeros: whoever asks makes 0 the plainest answer.
"""

import random
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

Steps = list[list[int]]
"""What was chosen, step by step; the first is the making of the world."""

FINE = 1 << 16
"""How finely probabilities and weights are told apart."""


class Choices:
    """Draws from *seed*, or repeats *script* (numbers that are too large count modulo)."""

    def __init__(self, seed: int | str, script: Steps | None = None) -> None:
        self._random = random.Random(seed).random if script is None else None
        self._script = script or []
        self.recorded: Steps = []
        self._now: list[int] = []
        self._given: list[int] = []
        self._at = 0

    @property
    def exhausted(self) -> bool:
        """Has the whole script been played?"""
        return self._random is None and len(self.recorded) >= len(self._script)

    def step(self) -> None:
        """Begin the next step."""
        if self._random is None:
            number = len(self.recorded)
            self._given = self._script[number] if number < len(self._script) else []
            self._at = 0
        self._now = []
        self.recorded.append(self._now)

    def below(self, n: int) -> int:
        """Return a number from 0 to *n* - 1."""
        if n <= 1:
            return 0
        draw = self._random
        if draw is not None:
            found = int(draw() * n)
        elif self._at < len(self._given):
            found = self._given[self._at] % n
            self._at += 1
        else:
            found = 0
        self._now.append(found)
        return found

    def between(self, low: int, high: int) -> int:
        """Return a number from *low* to *high*, both included."""
        return low + self.below(high - low + 1)

    def chance(self, probability: float) -> bool:
        """Return True with a probability; False is the plain answer."""
        if probability <= 0.0:
            return False
        return self._fine() >= FINE * (1.0 - probability)

    def _fine(self) -> int:
        """Return a number below `FINE`: `below` for what is drawn most often."""
        draw = self._random
        if draw is None:
            return self.below(FINE)
        found = int(draw() * FINE)
        self._now.append(found)
        return found

    def pick[T](self, options: Sequence[T]) -> T:
        """Return one of the options; the first is the plainest."""
        count = len(options)
        if count <= 1:
            return options[0]
        draw = self._random
        if draw is None:
            return options[self.below(count)]
        found = int(draw() * count)
        self._now.append(found)
        return options[found]

    def weighted(self, weights: "Weights") -> int:
        """Return an index, as often as its weight says."""
        found, last = bisect_right(weights.bounds, self._fine()), weights.last
        return found if found < last else last


class Weights:
    """How often each of several things is chosen."""

    def __init__(self, weights: Sequence[float]) -> None:
        total = sum(weights) or 1.0
        self.bounds = [FINE * each / total for each in accumulate(weights)]
        self.last = len(weights) - 1


__all__ = ["Choices", "Steps", "Weights"]
