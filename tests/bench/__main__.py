"""`python -m tests.bench [NAME ...]`: run benchmarks; each ends with one JSON line."""

import json
import sys
from collections.abc import Callable

from . import end_to_end, scenario

BENCHES: dict[str, Callable[[], dict[str, object]]] = {
    "smoke": lambda: end_to_end.run(scenario.SMOKE, timeout_s=60),
    "baseline": lambda: end_to_end.run(scenario.BASELINE),
    "large-scale": lambda: end_to_end.run(scenario.LARGE_SCALE),
}
"""Name -> what returns its figures."""


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    for name in names or list(BENCHES):
        print(f"# {name} ...", file=sys.stderr, flush=True)
        print(json.dumps(BENCHES[name]()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
