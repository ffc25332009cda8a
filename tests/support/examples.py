"""How many examples property tests draw: always the same in the suite, others and more in `make fuzz`."""

import os

FACTOR = int(os.environ.get("SLUICE_FUZZ", "0"))


def examples(count: int) -> int:
    """Return how many examples to draw where the suite draws *count*."""
    return count * max(1, FACTOR)
