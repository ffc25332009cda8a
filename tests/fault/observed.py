"""What executors saw of their runs, and whether the scheduler held quota for it (G9), by one machine's clock.

A run is seen from inside: it begins after its start and ends before its end, so what is found wrong is wrong.
Runs on an executor count until the log says that it is lost; of what comes after that nothing is promised.
"""

import os
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from sluice.core.scheduler.state import SchedulerState
from sluice.events.base import Event, Micros, WorkloadKey
from sluice.events.slices import WorkloadCreated, WorkloadFinished
from sluice.events.variants import VariantCreated
from sluice.log.contract import Entry
from sluice.protocol.dispatch import DispatchEntry

LOOK_S = 0.1
"""How often processes are looked at."""
HEARD: Micros = 20_000_000
"""Within this an executor has heard that its job is to have fewer pods; until then they run on (WS3)."""

Pods = dict[str, tuple[str, int]]
"""Pod set -> flavor and number."""
Life = tuple[str, str]
"""A job's key, and the uid of one of its lives."""


def micros() -> Micros:
    return time.time_ns() // 1000


def pods_of(entry: DispatchEntry) -> Pods:
    return {pods.name: (pods.flavors.get("cpu", ""), pods.ungated) for pods in entry.pod_sets}


class Run(msgspec.Struct):
    """Pods of one attempt that ran together; a resize ends one and begins the next."""

    workload: WorkloadKey
    attempt: int
    executor: str
    pods: Pods
    begin: Micros
    end: Micros = 0
    done: bool = False
    """The attempt has done its work."""


# Who notes them


class Diary:
    """Runs of one process, in a file that survives it: a line as one begins, one as it ends, and a beat."""

    def __init__(self, path: Path, executor: str) -> None:
        self._file = path.open("ab", buffering=0)
        self._executor = executor
        self._runs: dict[int, Run] = {}

    def begin(self, entry: DispatchEntry) -> int:
        number = len(self._runs)
        self._runs[number] = Run(entry.workload, entry.attempt, self._executor, pods_of(entry), micros())
        self._write(number)
        return number

    def end(self, number: int, *, done: bool = False) -> None:
        run = self._runs[number]
        run.end, run.done = micros(), done
        self._write(number)

    def beat(self) -> None:
        """Say that what has begun still runs."""
        self._file.write(b"%d\n" % micros())

    def close(self) -> None:
        """Close the file; a process that ends need not."""
        self._file.close()

    def _write(self, number: int) -> None:
        self._file.write(msgspec.json.encode((number, self._runs[number])) + b"\n")


def read_diary(path: Path) -> list[Run]:
    """Return the runs in a diary; those that its process did not end, up to its last sign of life."""
    runs: dict[int, Run] = {}
    last = 0
    for line in path.read_bytes().splitlines():
        with suppress(msgspec.DecodeError):
            found = msgspec.json.decode(line, type=int | tuple[int, Run])
            if isinstance(found, int):
                last = found
            else:
                runs[found[0]] = found[1]
                last = max(last, found[1].begin, found[1].end)
    for run in runs.values():
        run.end = run.end or max(last, run.begin)
    return list(runs.values())


class ProcessWatch:
    """Looks which pods of the cell in *directory* run as processes here, from a thread of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        self._pods: dict[int, tuple[str, ...]] = {}
        """Pid -> what its environment says; () while it says nothing."""
        self._young: dict[int, int] = {}
        """Pid -> looks at it. A process that was forked and not yet executed has its parent's environment."""
        self._open: dict[tuple[str, ...], Run] = {}
        self._runs: list[Run] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> list[Run]:
        self._over.set()
        self._thread.join()
        return [*self._runs, *self._open.values()]

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            self._look()

    def _look(self) -> None:
        pids = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        alive: dict[tuple[str, ...], Micros] = {}
        for pid in pids:
            looks = self._young.get(pid, 0)
            if looks < 4:
                self._young[pid] = looks + 1
                self._pods[pid] = self._pod(pid)
            # A look takes long on a busy machine. What runs now did so when its environment had been read.
            at = micros()
            if (pod := self._pods[pid]) and _runs(pid):
                alive[pod] = at
        for gone in self._young.keys() - pids:
            del self._young[gone], self._pods[gone]
        for pod, at in alive.items():
            run = self._open.get(pod)
            if run is None:
                workload, attempt, executor, pod_set, flavor, _ = pod
                self._open[pod] = Run(
                    WorkloadKey(workload), int(attempt), executor, {pod_set: (flavor, 1)}, at, at
                )
            else:
                run.end = max(run.end, at)
        for pod in self._open.keys() - alive.keys():
            self._runs.append(self._open.pop(pod))

    def _pod(self, pid: int) -> tuple[str, ...]:
        try:
            raw = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return ()
        env = dict(part.split("=", 1) for part in raw.decode(errors="replace").split("\0") if "=" in part)
        if "SLUICE_POD" not in env or not env.get("SLUICE_WORK_DIR", "").startswith(self._directory):
            return ()
        names = ("WORKLOAD", "ATTEMPT", "AGENT", "POD_SET", "FLAVOR_CPU", "POD_INDEX")
        return tuple(env.get(f"SLUICE_{name}", "") for name in names)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


# What the log says


@dataclass
class Held:
    """What the scheduler held for each life of a job, and when; filled while the log is folded."""

    lives: dict[WorkloadKey, Life] = field(default_factory=dict)
    """Workload (variants too) -> whose it is."""
    history: dict[Life, list[tuple[Micros, list[Pods]]]] = field(default_factory=dict)
    """When it changed, and what each workload that had quota had from then on."""
    succeeded: dict[Life, Micros] = field(default_factory=dict)
    """Life -> when it was Succeeded."""
    _workloads: dict[Life, dict[WorkloadKey, None]] = field(default_factory=dict)

    def add(self, state: SchedulerState, event: Event, at: Micros) -> None:
        """Note what *event*, just folded, has changed."""
        if isinstance(event, WorkloadCreated) and (job := event.workload.job) is not None:
            self._is_of(event.workload.key, (job.key, job.uid))
        elif isinstance(event, VariantCreated) and event.workload.parent in self.lives:
            self._is_of(event.workload.key, self.lives[event.workload.parent])
        key = getattr(event, "workload", None)
        life = self.lives.get(WorkloadKey(key)) if isinstance(key, str) else None
        if life is None:
            return
        if isinstance(event, WorkloadFinished) and event.reason == "Succeeded":
            self.succeeded[life] = at
        now = self._now(state, life)
        history = self.history.setdefault(life, [])
        if not history or history[-1][1] != now:
            history.append((max(at, history[-1][0]) if history else at, now))

    def _is_of(self, workload: WorkloadKey, life: Life) -> None:
        self.lives[workload] = life
        self._workloads.setdefault(life, {})[workload] = None

    def _now(self, state: SchedulerState, life: Life) -> list[Pods]:
        workloads = state.world.workloads
        found = [workloads.get(key) for key in self._workloads[life]]
        return [
            {pods.name: (pods.flavors.get("cpu", ""), pods.count) for pods in each.assignment}
            for each in found
            if each is not None and each.assignment is not None
        ]


def losses(entries: Iterable[Entry]) -> dict[str, list[Micros]]:
    """Return executor -> when the log said that it is lost."""
    found: dict[str, list[Micros]] = {}
    for entry in entries:
        if entry.suffix.startswith("presence.agent.") and b'"Lost"' in entry.payload:
            found.setdefault(entry.suffix.rpartition(".")[2], []).append(entry.at)
    return found


def without_lost(runs: Iterable[Run], lost: dict[str, list[Micros]]) -> list[Run]:
    """Return *runs*, each ending at latest when its executor was said to be lost."""
    found = []
    for run in runs:
        end = min((at for at in lost.get(run.executor, ()) if at > run.begin), default=run.end)
        found.append(msgspec.structs.replace(run, end=min(run.end, end)))
    return found


# The comparison


def compare(runs: Sequence[Run], held: Held) -> tuple[list[str], list[str]]:
    """Return what ran without quota, and what ran twice at once."""
    by_job: dict[str, dict[Life, list[Run]]] = {}
    unknown = []
    for run in runs:
        life = held.lives.get(run.workload)
        if life is None:
            unknown.append(f"{run.workload} ran on {run.executor}, and the log does not know it")
        else:
            by_job.setdefault(life[0], {}).setdefault(life, []).append(run)
    without, twice = unknown, []
    for job, lives in by_job.items():
        for life, its in lives.items():
            without += _uncovered(job, its, held.history.get(life, []))
        twice += _overlaps(job, [(life, run) for life, its in lives.items() for run in its])
    return without, twice


def _uncovered(job: str, runs: list[Run], history: list[tuple[Micros, list[Pods]]]) -> list[str]:
    """Look at each moment at which a run began, and right after what was held had changed."""
    moments = sorted({run.begin for run in runs} | {at + 1 for at, _ in history})
    wrong = []
    for at in moments:
        now = [run for run in runs if run.begin <= at < max(run.end, run.begin + 1)]
        if not now:
            continue
        total: dict[tuple[str, str], int] = {}
        for run in now:
            for name, (flavor, count) in run.pods.items():
                if count:
                    total[name, flavor] = total.get((name, flavor), 0) + count
        # Just before a change, and just after: which came first at one microsecond nobody knows.
        before = [pods for since, pods in history if since < at][-1:]
        then = [pods for since, pods in history if since == at]
        if not any(_covers(option, total, history, at) for option in [*before, *then]):
            text = ", ".join(f"{run.pods} of attempt {run.attempt} on {run.executor}" for run in now)
            wrong.append(f"{job}: ran without quota at {at}: {text}; held {then or before}")
            break
    return wrong


def _covers(
    option: list[Pods],
    total: dict[tuple[str, str], int],
    history: list[tuple[Micros, list[Pods]]],
    at: Micros,
) -> bool:
    for pods in option:
        for (name, flavor), count in total.items():
            found = pods.get(name, ("", 0))
            if found[0] != flavor or count > max(found[1], _lately(history, name, at)):
                break
        else:
            return True
    return False


def _lately(history: list[tuple[Micros, list[Pods]]], name: str, at: Micros) -> int:
    """Return the most pods that were held for a set since an executor may not have heard of fewer."""
    since = [i for i, (begin, _) in enumerate(history) if begin <= at - HEARD]
    first = since[-1] if since else 0
    return max(
        (pods[name][1] for begin, held in history[first:] if begin <= at for pods in held if name in pods),
        default=0,
    )


def _overlaps(job: str, runs: list[tuple[Life, Run]]) -> list[str]:
    runs.sort(key=lambda each: each[1].begin)
    latest: tuple[Life, Run] | None = None
    for life, run in runs:
        if latest is not None and run.begin < latest[1].end:
            other = latest[1]
            if (life, run.attempt) != (latest[0], other.attempt):
                text = f"{job}: attempt {run.attempt} on {run.executor} began {other.end - run.begin} us"
                return [f"{text} before attempt {other.attempt} on {other.executor} had ended"]
        if latest is None or run.end > latest[1].end:
            latest = (life, run)
    return []
