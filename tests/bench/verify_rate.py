"""How fast deciders fold a long log and decide it again: `python -m tests.bench.verify_rate [EVENTS | FILE]`.

Of a log as a busy cell writes it, or of an exported one: per decider, everything that it reads or writes is
decoded, folded, and decided again, in a process each that has the machine to itself. Machines are fast
today and slow tomorrow, so what a fold and a verification cost is also told in passes of mere reading and
decoding. Where snapshots lie beside the file (`sluice replay index`), verification is timed with all
processors as well.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sluice.core.scheduler.decider import Scheduler
from sluice.core.slices.decider import SliceAggregator
from sluice.events.codec import decode_commit
from sluice.log.decider import Decider
from sluice.log.runtime.process_pool import in_copy
from sluice.protocol.subjects import COMMITS
from sluice.replay.source.log_file import Header, Writer
from sluice.replay.source.source import FileSource
from sluice.replay.source.time_travel import fold_at, patterns_of, unhurried
from sluice.replay.verify.whole_log import Checked, check, check_all
from tests.support.system import ROOT

from .recorded import Recorder
from .recorded_log import EVENTS
from .scenario import LARGE_SCALE

Figures = dict[str, Any]

DECIDERS: dict[str, Callable[[], Decider[Any]]] = {
    Scheduler.writer: Scheduler,
    SliceAggregator.writer: SliceAggregator,
}


def decode(source: FileSource, decider: Decider[Any]) -> int:
    """Do no more than all others do as well; return how many events the decider reads or writes."""
    events = 0
    with unhurried():
        for entries in source.read(patterns=patterns_of(decider)):
            for entry in entries:
                if entry.suffix in COMMITS:
                    events += sum(len(step.events) for step in decode_commit(entry.payload).steps)
                else:
                    events += 1
    return events


def fold(source: FileSource, decider: Decider[Any]) -> int:
    return fold_at(source, decider, source.end, snapshots=False).folded


def verify(source: FileSource, decider: Decider[Any]) -> int:
    return _steps(check(source, decider))


def verify_in_pieces(source: FileSource, decider: Decider[Any]) -> int:
    return _steps(check_all(source, [(decider, None)])[0])


def _steps(found: Checked) -> int:
    if found.divergence is not None:
        raise RuntimeError(f"{found.writer} decides otherwise: {found.divergence}")
    return found.steps


WAYS: dict[str, Callable[[FileSource, Decider[Any]], int]] = {
    "decode": decode,
    "fold": fold,
    "verify": verify,
    "verify_in_pieces": verify_in_pieces,
}


def measure(way: str, writer: str, path: Path) -> Figures:
    """Return the time that one way takes, children included."""
    source, decider = FileSource(path), DECIDERS[writer]()
    before, wall = os.times(), time.perf_counter()
    count = WAYS[way](source, decider)
    after, wall = os.times(), time.perf_counter() - wall
    return {"count": count, "wall_s": wall, "cpu_s": sum(after[:4]) - sum(before[:4])}


def run(events: int = EVENTS, path: Path | None = None) -> Figures:
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        if path is None:
            path = Path(folder) / "long.slog"
            # In a child: what making it has left in memory must not weigh on the children here.
            in_copy(lambda: _record(path, events))
        ways = [
            way for way in WAYS if way != "verify_in_pieces" or FileSource(path).sidecar.directory.exists()
        ]
        found = {writer: _of(writer, ways, path) for writer in DECIDERS}
        return {"bench": "verify-rate", "log_mb": round(path.stat().st_size / 1e6, 1), "deciders": found}


def _of(writer: str, ways: list[str], path: Path) -> Figures:
    made: dict[str, Figures] = {}
    for way in ways:
        command = [sys.executable, "-m", "tests.bench.verify_rate", way, writer, str(path)]
        made[way] = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    events = made["decode"]["count"]
    # At least one tick of the clock.
    plain = max(made["decode"]["cpu_s"], 1 / os.sysconf("SC_CLK_TCK"))
    result: Figures = {"events": events}
    for way, figures in made.items():
        result[way] = {
            "events_per_s": round(events / figures["wall_s"]),
            "cpu_us_per_event": round(figures["cpu_s"] / events * 1e6, 2),
            "times_decode": round(figures["cpu_s"] / plain, 2),
        }
    return result


def _record(path: Path, events: int) -> None:
    with path.open("wb") as file:
        writer = Writer(file, Header(source="bench"))
        Recorder(lambda entry: writer.add((entry,)), LARGE_SCALE).play(events)
        writer.finish()


def key(figures: Figures) -> str:
    """Return the figures that count, in one line."""
    return "; ".join(
        f"{writer}: "
        + ", ".join(
            f"{way.replace('_', ' ')} {found[way]['events_per_s']}/s"
            f" ({found[way]['cpu_us_per_event']} us, {found[way]['times_decode']} decodings)"
            for way in WAYS
            if way != "decode" and way in found
        )
        for writer, found in figures["deciders"].items()
    )


def main(arguments: list[str]) -> Figures:
    if len(arguments) == 3:
        return measure(arguments[0], arguments[1], Path(arguments[2]))
    if not arguments:
        return run()
    return run(int(arguments[0])) if arguments[0].isdigit() else run(path=Path(arguments[0]))


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
