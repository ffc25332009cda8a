"""Meter of a party's messages: so much a second in the long run, more at once."""


class Meter:
    """A bucket of tokens; times in seconds, of any clock that goes forward."""

    __slots__ = ("_at", "_left", "most", "per_s")

    def __init__(self, per_s: float, most: float) -> None:
        self.per_s, self.most = per_s, max(most, 1.0)
        self._left, self._at = self.most, 0.0

    def take(self, now: float) -> float:
        """Take one, and return 0; or how long it is until there is one.

        >>> meter = Meter(per_s=2, most=1)
        >>> meter.take(10.0), meter.take(10.0), meter.take(10.25), meter.take(10.5)
        (0.0, 0.5, 0.25, 0.0)
        """
        left = min(self.most, self._left + (now - self._at) * self.per_s)
        self._at = now
        if left < 1:
            self._left = left
            return (1 - left) / self.per_s
        self._left = left - 1
        return 0.0
