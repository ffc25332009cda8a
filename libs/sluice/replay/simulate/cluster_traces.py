"""Job traces of other systems: the Standard Workload Format, and Slurm's `sacct --parsable2`."""

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from sluice.events.base import JobKey
from sluice.events.codec import encode_message
from sluice.replay.source.source import ListSource

from .executors import Run
from .inputs import Input, Inputs, applied

__all__ = ["TraceError", "TraceSource", "read_trace"]

EPOCH_S = 1_767_225_600
"""Where the times of a trace without a start begin."""

LARGEST = 1e11
"""Of any number in a trace: processors, or seconds, which come to the year 5138."""

MAX_TEXT = 512 << 20
"""Characters: ten times the longest of the public traces. Compressed it may be small."""

GPU = "nvidia.com/gpu"
"""What Slurm's gres/gpu is here."""


class TraceError(ValueError):
    """A trace that cannot be read; says which line."""


class TraceSource(ListSource):
    """Stands for the log that a trace is not: nothing was recorded."""

    def __init__(self, inputs: Inputs, name: str) -> None:
        super().__init__([], name)
        self.inputs = inputs

    @property
    def end(self) -> int:
        return max(1, len(self.inputs.items))


def read_trace(path: Path, cpus: int | None = None, limit: int | None = None) -> Inputs:
    """Read a trace (SWF or sacct, gzipped or not) as submissions to one queue per queue or partition.

    *cpus*: what the machine has, shared by all queues in one cohort; without it the trace's own word, or the
    most that was in use at once. Of GPUs there are as many as were in use at once.
    """
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            text = file.read(MAX_TEXT + 1)
    except (UnicodeDecodeError, EOFError, zlib.error) as error:
        raise TraceError(f"{path}: no trace, nor any other text") from error
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from error
    if len(text) > MAX_TEXT:
        raise TraceError(f"{path}: more than {MAX_TEXT >> 20} MiB of text")
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    if "|" in first:
        jobs, total = list(_sacct(lines, path)), 0
    else:
        jobs = list(_swf(lines, path))
        found = re.search(r"^;\s*Max(?:Procs|Nodes):\s*(\d{1,11})", "\n".join(lines[:200]), re.MULTILINE)
        total = int(found[1]) if found else 0
    if not jobs:
        raise TraceError(f"{path}: no job in it: want SWF, or `sacct --parsable2` with a header")
    ran = sorted((job for job in jobs if job.cpus), key=lambda job: (job.at_us, job.name))[:limit]
    if not ran:
        raise TraceError(f"{path}: no job in it that ever ran")
    machine = cpus or total or _most([(job, job.cpus) for job in ran])
    inputs = _inputs(ran, machine, _most([(job, job.gpus) for job in ran]))
    inputs.left_out = sum(1 for job in jobs if not job.cpus)
    return inputs


def _most(taken: Sequence[tuple["TraceJob", int]]) -> int:
    """Return how much was in use at once, of jobs and what each had."""
    moves: list[tuple[int, int]] = []
    for job, amount in taken:
        begin = max(job.at_us, job.started_us)
        moves += [(begin, amount), (begin + int(job.seconds * 1e6), -amount)]
    used = most = 0
    for _, amount in sorted(moves):
        used += amount
        most = max(most, used)
    return max(most, *(amount for _, amount in taken))


class TraceJob(msgspec.Struct, frozen=True):
    """`cpus` 0: it never ran. `started_us` 0: nobody knows."""

    name: str
    at_us: int = 0
    seconds: float = 0.0
    cpus: int = 0
    queue: str = ""
    success: bool = True
    gpus: int = 0
    started_us: int = 0


def _swf(lines: Iterable[str], path: Path) -> Iterator[TraceJob]:
    start = EPOCH_S
    for number, line in enumerate(lines, 1):
        if found := re.match(r";\s*UnixStartTime:\s*(\d{1,11})", line):
            start = int(found[1]) or EPOCH_S
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        fields = line.split()
        if len(fields) < 15:
            raise TraceError(f"{path}: line {number}: {len(fields)} fields, a job in SWF has 18")
        try:
            values = [_bounded(float(field)) for field in fields[:15]]
        except ValueError as error:
            raise TraceError(f"{path}: line {number}: {error}") from error
        yield _swf_job(values, start)


def _swf_job(values: Sequence[float], start: int) -> TraceJob:
    cpus = int(values[7]) if values[7] > 0 else int(values[4])
    name = f"j{int(values[0])}"
    if cpus <= 0 or values[3] < 0 or values[1] < 0:
        return TraceJob(name)
    queue = f"q{int(values[14])}" if values[14] >= 0 else "default"
    at = int((start + values[1]) * 1e6)
    began = at + int(max(values[2], 0) * 1e6)
    return TraceJob(name, at, values[3], cpus, queue, values[10] != 0, started_us=began)


def _bounded(value: float) -> float:
    """Return the value, from which a time in microseconds can be made."""
    if not -LARGEST <= value <= LARGEST:
        raise ValueError(f"{value} is out of range")
    return value


_NEVER_RAN = ("PENDING", "RUNNING", "REQUEUED", "SUSPENDED", "RESIZING")
_UNITS = {"": 1, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_COUNT = re.compile(r"(\d+(?:\.\d+)?)([KMG]?)")
_DURATION = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?")


def _sacct(lines: Iterable[str], path: Path) -> Iterator[TraceJob]:
    header: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        cells = line.split("|")
        if not header:
            header = cells
            missing = [name for name in ("JobID", "Submit") if name not in header]
            if missing or not {"Elapsed", "ElapsedRaw"} & set(header):
                want = "JobID, Submit, ElapsedRaw or Elapsed, and best AllocCPUS, Partition, State"
                raise TraceError(
                    f"{path}: line {number}: no column {', '.join(missing) or 'Elapsed'}: want {want}"
                )
            continue
        row = dict(zip(header, cells, strict=False))
        if "JobID" not in row or "Submit" not in row:
            raise TraceError(f"{path}: line {number}: {len(cells)} cells, the header has {len(header)}")
        if "." in row["JobID"]:
            continue  # a step of a job
        yield from _sacct_job(row, f"{path}: line {number}")


def _sacct_job(row: dict[str, str], where: str) -> Iterator[TraceJob]:
    name = "j" + _plain(row["JobID"])
    state = row.get("State", "COMPLETED").partition(" ")[0]
    if state in _NEVER_RAN:
        yield TraceJob(name)
        return
    try:
        at = _time(row["Submit"])
        raw = row.get("ElapsedRaw", "")
        seconds = _bounded(float(raw) if raw else _seconds(row.get("Elapsed", "")))
        given = dict(part.partition("=")[::2] for part in row.get("AllocTRES", "").split(",") if "=" in part)
        cpus = _count(
            row.get("AllocCPUS") or given.get("cpu") or row.get("ReqCPUS") or row.get("NCPUS") or "1"
        )
        gpus = _count(given.get("gres/gpu") or "0")
        if not gpus:
            gpus = sum(_count(amount) for key, amount in given.items() if key.startswith("gres/gpu:"))
        start = row.get("Start", "")
        began = _time(start) if start[:1].isdigit() else 0
    except (ValueError, OverflowError) as error:
        raise TraceError(f"{where}: {error}") from error
    partition = _plain(row.get("Partition") or "default") or "default"
    yield TraceJob(name, at, seconds, cpus, partition, state == "COMPLETED", gpus, began)


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _time(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1e6)


def _count(text: str) -> int:
    """Return a number as Slurm writes it: 48, or 1.5K."""
    found = _COUNT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no number like 48 or 1.5K")
    return round(_bounded(float(found[1]) * _UNITS[found[2]]))


def _seconds(text: str) -> float:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no duration like 1-02:03:04")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds


def _inputs(jobs: list[TraceJob], cpus: int, gpus: int) -> Inputs:
    begin = jobs[0].at_us - 1
    queues = sorted({job.queue for job in jobs})
    items = [
        Input(
            begin,
            "config",
            b"",
            (applied("ResourceFlavor", "default", _manifest("ResourceFlavor", "default", {})),),
        )
    ]
    # Quota is split evenly and lent freely, so that any queue may have all of the machine.
    amounts = {"cpu": cpus} | ({GPU: gpus} if gpus else {})
    for index, queue in enumerate(queues):
        quotas = [
            {"name": name, "nominalQuota": amount // len(queues) + (index < amount % len(queues))}
            for name, amount in amounts.items()
        ]
        group = {"coveredResources": list(amounts), "flavors": [{"name": "default", "resources": quotas}]}
        spec = {"cohortName": "machine", "namespaceSelector": {}, "resourceGroups": [group]}
        items.append(
            Input(
                begin,
                "config",
                b"",
                (applied("ClusterQueue", queue, _manifest("ClusterQueue", queue, spec)),),
            )
        )
        local = _manifest("LocalQueue", queue, {"clusterQueue": queue})
        items.append(Input(begin, "config", b"", (applied("LocalQueue", queue, local, "default"),)))
    runs: dict[JobKey, list[Run]] = {}
    for number, job in enumerate(jobs, len(items) + 1):
        key = JobKey(f"default/{job.name}")
        manifest = {
            "apiVersion": "sluice.dev/v1alpha1",
            "kind": "Job",
            "metadata": {"name": job.name, "namespace": "default"},
            "spec": {
                "queueName": job.queue,
                "command": ["true"],
                "replicas": 1,
                "resources": {"cpu": job.cpus} | ({GPU: job.gpus} if job.gpus else {}),
            },
        }
        payload = encode_message(
            message_id=job.name,
            source="trace",
            event_type="JobSubmitted",
            subject=key,
            at=job.at_us,
            data=manifest,
        )
        items.append(Input(job.at_us, f"job.default.{job.name}", payload, (), number))
        runs[key] = [Run(int(job.seconds * 1e6), success=job.success, finish_seq=number)]
    return Inputs(items, runs, end=jobs[-1].at_us)


def _manifest(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"} if kind == "LocalQueue" else {"name": name}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}
