"""What it costs to ask a long log: `python -m tests.bench.replay [EVENTS]`.

Makes a log as a busy cell writes it, exports it, and asks it everything through the command line, each
command a process of its own; and the baseline scenario's log for what-if, which is measured against the
time that the scenario covers. A command that fails or takes too long says so in its figures, and the others
are asked all the same. Run by itself it prints a JSON line per command as well.
"""

import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.core.scheduler.decider import Scheduler
from sluice.log.runtime.process_pool import in_copy
from sluice.replay.source.log_file import Header, Writer
from sluice.replay.source.source import FileSource
from sluice.replay.source.time_travel import fold_at
from tests.support.system import System

from .recorded import Recorder
from .recorded_log import EVENTS
from .scenario import BASELINE, LARGE_SCALE, Scenario

Figures = dict[str, Any]

LIMIT_S = 300.0
"""What no command should take; one that does is ended, and the others are asked all the same."""

EVERY = 20_000
"""Events between two snapshots, as it is by default."""
CHANGE = "ClusterQueue/cq-0-0.spec.queueingStrategy=StrictFIFO"


@dataclass
class Asked:
    """One command that has ended."""

    output: str
    wall_s: float
    cpu_s: float
    peak_mb: float
    failed: str = ""
    """Why there is no answer; the other commands go on."""

    def figures(self) -> Figures:
        wall, cpu = round(self.wall_s, 2), round(self.cpu_s, 2)
        found = {"wall_s": wall, "cpu_s": cpu, "peak_mb": round(self.peak_mb)}
        return found | {"failed": self.failed} if self.failed else found


def ask(*arguments: str, limit_s: float = LIMIT_S) -> Asked:
    """Run `sluice` with *arguments*, and end it after a time.

    CPU time is that of all its processes, memory that of the largest.
    """
    command = [sys.executable, "-m", "sluice.cli.main", *arguments]
    with tempfile.TemporaryFile() as output:
        started = time.monotonic()
        actions = [(os.POSIX_SPAWN_DUP2, output.fileno(), 1)]
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=actions, setpgroup=0)
        failed = ""
        try:
            while not (ended := os.wait4(pid, os.WNOHANG))[0]:
                if time.monotonic() - started > limit_s:
                    failed = f"no answer within {limit_s:.0f} s"
                    os.killpg(pid, signal.SIGKILL)
                    ended = os.wait4(pid, 0)
                    break
                time.sleep(0.005)
        except BaseException:
            # Its own group does not hear of an interrupt.
            os.killpg(pid, signal.SIGKILL)
            os.wait4(pid, 0)
            raise
        _, status, used = ended
        wall = time.monotonic() - started
        output.seek(0)
        text = output.read().decode()
    if status and not failed:
        failed = f"exit code {os.waitstatus_to_exitcode(status)}"
    return Asked(text, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, failed)


def record(path: Path, scenario: Scenario, play: Callable[[Recorder], None], rounds: int | None) -> int:
    """Write a log of *scenario*; returns how many events it has."""
    with path.open("wb") as file:
        writer = Writer(file, Header(source="bench"))
        recorder = Recorder(lambda entry: writer.add((entry,)), scenario, rounds)
        play(recorder)
        writer.finish()
    return recorder.total


def run(events: int = EVENTS, show: Callable[[str], None] = lambda _: None) -> Figures:
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        log = Path(folder) / "long.slog"
        # In a child: what this process had at its largest would count as every command's memory.
        total = in_copy(lambda: record(log, LARGE_SCALE, lambda recorder: recorder.play(events), None))
        source = FileSource(log)
        asked: dict[str, Figures] = {}

        def measure(name: str, *arguments: str) -> Asked:
            found = ask(*arguments)
            asked[name] = found.figures()
            show(json.dumps({"bench": "replay", "command": name, **asked[name]}))
            return found

        _move(measure, log, Path(folder))
        _look_back(measure, log, source)
        baseline = Path(folder) / "baseline.slog"
        in_copy(lambda: record(baseline, BASELINE, Recorder.play_out, 1))
        whatif = measure(
            "what-if of the baseline", "replay", "what-if", "-l", str(baseline), "--set", CHANGE, "-o", "json"
        )
        covers = 0.0 if whatif.failed else json.loads(whatif.output)["runs"][1]["coversSeconds"]
        return {
            "bench": "replay",
            "events": total,
            "messages": source.end,
            "log_mb": round(log.stat().st_size / 1e6, 1),
            "snapshots_mb": round(sum(f.stat().st_size for f in source.sidecar.directory.iterdir()) / 1e6, 1),
            "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
            "what_if_covers_s": round(covers, 1),
            "what_if_times_faster": round(covers / whatif.wall_s, 1),
            "commands": asked,
        }


def _move(measure: Callable[..., Asked], log: Path, folder: Path) -> None:
    """Into a cell, out of it, and from file to file."""
    with System(folder / "cell") as cell:
        measure("import", "-s", cell.url, "log", "import", str(log))
        measure("export of a cell", "-s", cell.url, "log", "export", str(folder / "live.slog"))
    measure("export of a file", "log", "export", "-l", str(log), str(folder / "copy.slog"))


def _look_back(measure: Callable[..., Asked], log: Path, source: FileSource) -> None:
    end, file = source.end, ("-l", str(log))
    middle = (source.first + end) // 2
    measure("state, middle, no snapshots", "replay", "state", "--at", str(middle), *file)
    measure("state, end, no snapshots", "replay", "state", *file)
    measure("index", "replay", "index", "--every", str(EVERY), str(log))
    measure("state, middle", "replay", "state", "--at", str(middle), *file)
    measure("state, end", "replay", "state", *file)
    measure("list of checks, middle", "replay", "state", "--show", "checks", "--at", str(middle), *file)
    near, far = str(middle - (end - source.first) // 100), str(end)
    measure("diff of near points", "replay", "diff", near, str(middle), *file)
    measure("diff of far points", "replay", "diff", str(middle), far, *file)
    measure("verify", "replay", "verify", *file)
    seq, who = in_copy(lambda: _pending(source, middle))
    measure("state of one workload", "replay", "state", who, "--at", str(seq), *file)
    measure("why", "why", who, "--at", str(seq), *file)
    measure("who-preempted", "who-preempted", who, *file)
    measure("trace", "trace", str(middle), *file)
    measure("timeline", "replay", "timeline", who, *file)
    measure("extract", "log", "extract", str(log.with_name("cut.slog")), "--workload", who, *file)
    measure("lint", "log", "lint", *file)


def _pending(source: FileSource, start: int) -> tuple[int, str]:
    """Return a sequence from *start* on at which many wait, and one of those in the middle of them."""
    best: tuple[int, int, str] = (0, 0, "")
    for seq in range(start, source.end, max(1, (source.end - start) // 8)):
        state = fold_at(source, Scheduler(), seq).state
        waiting = [key for key, w in state.world.workloads.items() if w.peers is not None]
        if len(waiting) > best[0]:
            best = (len(waiting), seq, waiting[len(waiting) // 2])
    if not best[0]:
        raise RuntimeError("nobody waits anywhere in this log; make a longer one")
    return best[1:]


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    print(json.dumps(run(count, lambda line: print(line, flush=True))))
