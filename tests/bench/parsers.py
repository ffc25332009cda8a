"""What reading costs by the byte: `python -m tests.bench.parsers [READER ...]`.

Every reader of what others have written reads every shape of hard bytes in three sizes. Prints microseconds
per byte of the worst shape at each size, and names what grows faster than the bytes do.
"""

import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from tests.support.readers import READERS, SHAPES, Reader, read

SIZES = (1_000, 16_000, 256_000)
NOISE_S = 0.05
"""Less than this at the largest size says nothing about growth."""
GROWTH = 4.0
"""So many times the microseconds per byte of the size before are more than noise: 16 would be quadratic."""


def run(sizes: Sequence[int] = SIZES, names: Iterable[str] = (), most_s: float = 5.0) -> dict[str, Any]:
    """Return the figures; a shape that took longer than *most_s* is not tried in a larger size."""
    readers, worst = {}, 0.0
    superlinear: list[str] = []
    for name in names or READERS:
        row: dict[str, Any] = {}
        slow: set[str] = set()
        before: dict[str, float] = {}
        for size in sizes:
            found = {s: _took(READERS[name], SHAPES[s](size)) for s in SHAPES if s not in slow}
            slow |= {shape for shape, took in found.items() if took > most_s}
            each = {shape: took / size * 1e6 for shape, took in found.items()}
            for shape, took in found.items():
                if took > NOISE_S and each[shape] > GROWTH * before.get(shape, each[shape]):
                    superlinear.append(f"{name}: {shape}: {took:.2f} s for {size} bytes")
            before = each
            longest = max(each, key=lambda shape: each[shape])
            row[str(size)] = {"us_per_byte": round(each[longest], 4), "shape": longest}
            if size == sizes[-1]:
                worst = max(worst, each[longest])
        readers[name] = row
    return {
        "bench": "parsers",
        "worst_us_per_byte": round(worst, 3),
        "superlinear": superlinear,
        "readers": readers,
    }


def _took(reader: Reader, data: bytes) -> float:
    began = time.process_time()
    read(reader, data)
    return time.process_time() - began


def key(figures: dict[str, Any]) -> str:
    count = len(figures["superlinear"])
    return f"{figures['worst_us_per_byte']} us a byte at most, {count} grow faster than the bytes"


if __name__ == "__main__":
    print(json.dumps(run(names=sys.argv[1:]), indent=1))
