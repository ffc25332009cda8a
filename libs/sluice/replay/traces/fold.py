"""Jobs as traces: a fold over what happened, which gives out a job's spans when the job is over.

A log says all that a trace needs, so nothing is measured or sampled, and old logs have traces, too.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext

from sluice.core.views.present.job import Phase
from sluice.events.base import Micros
from sluice.protocol.tracing import context_of
from sluice.replay.history.causes import Happening

from . import contexts
from .shape import Told, shape

__all__ = ["traces"]


@dataclass(frozen=True)
class _Sent:
    """A message that submitted a job, until it is known what came of it."""

    at: Micros
    submitter: SpanContext | None


@dataclass(eq=False)
class _Job:
    uid: str
    told: Told
    workloads: list[str] = field(default_factory=list)


class JobTraces:
    """Traces of the jobs of *cell*; *wanted*: of this job only, also when it is not over."""

    def __init__(self, cell: str, wanted: str = "") -> None:
        self._cell, self._wanted = cell, wanted
        self._sent: dict[int, _Sent] = {}
        self._jobs: dict[str, _Job] = {}
        self._owners: dict[str, _Job] = {}
        """Workload -> its job; a variant's is its parent's."""
        self._until: Micros = 0

    def take(self, h: Happening) -> list[ReadableSpan]:
        """Fold what happened; return the spans of the job that is over with it, the job's own first."""
        self._until = max(self._until, h.at)
        match h.type:
            case "JobSubmitted":
                self._sent[h.seq] = _Sent(h.at, context_of(h.data))
            case "Rejected":
                self._sent.pop(h.cause, None)
            case "InputsIgnored":
                for seq in h.data["seqs"]:
                    self._sent.pop(seq, None)
            case "WorkloadCreated":
                return self._created(h)
            case "VariantCreated":
                record = h.data["workload"]
                if (job := self._owners.get(str(record.get("parent")))) is not None:
                    self._join(job, record)
                    self._tell(job, h)
            case "PendingReasonChanged" | "WorkloadsParked":
                self._reason(h)
            case _:
                if isinstance(key := h.data.get("workload"), str) and (job := self._owners.get(key)):
                    return self._about(job, h)
        return []

    def rest(self) -> Iterator[list[ReadableSpan]]:
        """Yield the spans of jobs that were deleted; and of the wanted one as far as the log goes."""
        for job in self._jobs.values():
            over = not job.told.story.is_open()
            if over or self._wanted:
                yield from self._shaped(job, over=over)

    def _created(self, h: Happening) -> list[ReadableSpan]:
        record = h.data["workload"]
        own = f"{record['namespace']}/{record['name']}"
        named = record.get("job") or {"key": own, "uid": record["uid"]}
        name, uid = str(named["key"]), str(named["uid"])
        job, ended = self._jobs.get(name), []
        if job is None or job.uid != uid:
            # Another job has the name now.
            ended = [] if job is None else self._end(name, job)
            sent = self._sent.pop(h.cause, _Sent(h.at, None))
            seed = f"{self._cell} {uid} {record['createdAt']}"
            told = Told(
                cell=self._cell,
                name=name,
                uid=uid,
                queue=f"{record['namespace']}/{record['queueName']}",
                seed=seed,
                submitted_at=sent.at,
                last_at=sent.at,
                submitter=sent.submitter,
                root=contexts.root(seed, sent.submitter),
            )
            job = self._jobs[name] = _Job(uid, told)
        self._join(job, record)
        self._tell(job, h)
        return ended

    def _join(self, job: _Job, record: dict[str, Any]) -> None:
        key = f"{record['namespace']}/{record['name']}"
        self._owners[key] = job
        job.workloads.append(key)

    def _reason(self, h: Happening) -> None:
        concerned: dict[_Job, list[str]] = defaultdict(list)
        for key in h.data["workloads"]:
            if (job := self._owners.get(key)) is not None:
                concerned[job].append(key)
        for job, keys in concerned.items():
            self._tell(job, replace(h, data={**h.data, "workloads": keys}))

    def _about(self, job: _Job, h: Happening) -> list[ReadableSpan]:
        if h.type == "Preempted" and (other := self._owners.get(h.data["preemptor"])) is not None:
            job.told.preemptors[h.seq, h.data["preemptor"]] = other.told.name, other.told.root
        elif h.type == "QuotaReserved":
            job.told.cluster_queue = str(h.data.get("clusterQueue", ""))
        self._tell(job, h)
        if h.type != "WorkloadFinished":
            return []
        # A happening leaves out what is as the event's default.
        job.told.result = str(h.data.get("reason", Phase.SUCCEEDED))
        job.told.message = str(h.data.get("message", ""))
        return self._end(job.told.name, job)

    def _tell(self, job: _Job, h: Happening) -> None:
        # Services date what they say by their own clocks; what follows in the log is not earlier.
        job.told.last_at = at = max(job.told.last_at, h.at)
        if self._wanted in ("", job.told.name):
            job.told.story.take(h if at == h.at else replace(h, at=at))

    def _end(self, name: str, job: _Job) -> list[ReadableSpan]:
        del self._jobs[name]
        for key in job.workloads:
            if self._owners.get(key) is job:
                del self._owners[key]
        return [span for spans in self._shaped(job, over=True) for span in spans]

    def _shaped(self, job: _Job, *, over: bool) -> Iterator[list[ReadableSpan]]:
        if self._wanted not in ("", job.told.name):
            return
        end = job.told.last_at if over else max(job.told.last_at, self._until)
        yield shape(job.told, end, over=over)


def traces(found: Iterable[Happening], cell: str, wanted: str = "") -> Iterator[list[ReadableSpan]]:
    """Yield the spans of one job after the other, as the jobs end."""
    fold = JobTraces(cell, wanted)
    for h in found:
        if spans := fold.take(h):
            yield spans
    yield from fold.rest()
