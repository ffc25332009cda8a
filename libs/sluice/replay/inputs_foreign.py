"""Job traces of other systems: the Standard Workload Format, and Slurm's `sacct --parsable2`."""

import gzip
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from sluice.events.base import JobKey
from sluice.events.codec import encode_message

from .executors import Run
from .inputs import Input, Inputs, applied

EPOCH_S = 1_767_225_600
"""Where the times of a trace without a start begin."""


class TraceError(ValueError):
    """A trace that cannot be read; says which line."""


def read_trace(path: Path, cpus: int | None = None, limit: int | None = None) -> Inputs:
    """Read a trace (SWF or sacct, gzipped or not) as submissions to one queue per queue or partition.

    *cpus*: what the machine has, shared by all queues in one cohort; without it the trace's own word, or the
    most that any job asks for.
    """
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise TraceError(f"{path}: {error}") from error
    first = next((line for line in lines if line.strip()), "")
    if "|" in first:
        jobs, total = list(_sacct(lines, path)), 0
    else:
        jobs = list(_swf(lines, path))
        found = re.search(r"^;\s*Max(?:Procs|Nodes):\s*(\d+)", "\n".join(lines[:200]), re.MULTILINE)
        total = int(found[1]) if found else 0
    if not jobs:
        raise TraceError(f"{path}: no job in it: want SWF, or `sacct --parsable2` with a header")
    jobs.sort(key=lambda job: (job.at_us, job.name))
    jobs = jobs[:limit]
    return _inputs(jobs, cpus or total or max(job.cpus for job in jobs))


class TraceJob(msgspec.Struct, frozen=True):
    name: str
    at_us: int
    seconds: float
    cpus: int
    queue: str
    success: bool = True


def _swf(lines: Iterable[str], path: Path) -> Iterator[TraceJob]:
    start = EPOCH_S
    for number, line in enumerate(lines, 1):
        if found := re.match(r";\s*UnixStartTime:\s*(\d+)", line):
            start = int(found[1]) or EPOCH_S
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        fields = line.split()
        if len(fields) < 15:
            raise TraceError(f"{path}: line {number}: {len(fields)} fields, a job in SWF has 18")
        try:
            values = [float(field) for field in fields[:15]]
        except ValueError as error:
            raise TraceError(f"{path}: line {number}: {error}") from error
        cpus = int(values[7]) if values[7] > 0 else int(values[4])
        if cpus <= 0 or values[3] < 0 or values[1] < 0:
            continue
        queue = f"q{int(values[14])}" if values[14] >= 0 else "default"
        at = int((start + values[1]) * 1e6)
        yield TraceJob(f"j{int(values[0])}", at, values[3], cpus, queue, values[10] != 0)


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
        if "." in row["JobID"]:
            continue  # a step of a job
        yield from _sacct_job(row, f"{path}: line {number}")


def _sacct_job(row: dict[str, str], where: str) -> Iterator[TraceJob]:
    try:
        at = int(datetime.fromisoformat(row["Submit"]).timestamp() * 1e6)
        raw = row.get("ElapsedRaw", "")
        seconds = float(raw) if raw else _seconds(row.get("Elapsed", ""))
        cpus = int(row.get("AllocCPUS") or row.get("ReqCPUS") or row.get("NCPUS") or 1)
    except ValueError as error:
        raise TraceError(f"{where}: {error}") from error
    if cpus > 0 and row.get("State", "").partition(" ")[0] not in ("PENDING", "RUNNING"):
        name = "j" + re.sub(r"[^a-z0-9]+", "-", row["JobID"].lower()).strip("-")
        partition = (
            re.sub(r"[^a-z0-9]+", "-", (row.get("Partition") or "default").lower()).strip("-") or "default"
        )
        yield TraceJob(name, at, seconds, cpus, partition, row.get("State", "COMPLETED") == "COMPLETED")


def _seconds(text: str) -> float:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no duration like 1-02:03:04")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds


def _inputs(jobs: list[TraceJob], cpus: int) -> Inputs:
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
    share, rest = divmod(cpus, len(queues))
    for index, queue in enumerate(queues):
        quota = {"name": "cpu", "nominalQuota": share + (1 if index < rest else 0)}
        group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
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
                "resources": {"cpu": job.cpus},
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
