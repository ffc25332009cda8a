"""Snapshots of the slice-aggregator's state: canonical bytes, equal for equal states.

Messages that wait are stored as they came and decoded again, so that a snapshot holds facts only.
"""

from collections.abc import Iterable

import msgspec

from sluice.api import kueue
from sluice.api.core_v1 import LimitRangeSpec
from sluice.api.mapped import JobKindSpec
from sluice.core.workload.pod_resources import Amounts
from sluice.events.base import JobKey, Micros, WorkloadKey
from sluice.events.envelope import Message
from sluice.events.job import OnLoss

from .intake import inbound, presence
from .lazy_manifest import read_all_manifests
from .state import Finished, Job, State

Kept = tuple[int, Micros, str, bytes]
"""Sequence, time, subject and payload of a message."""


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    jobs: list[Job]
    finished: list[Finished]
    claimed: list[tuple[str, list[tuple[JobKey, OnLoss | None]]]]
    executors: list[tuple[str, bool]]
    away: list[str]
    expiry: list[tuple[Micros, JobKey]]
    aging: list[tuple[WorkloadKey, JobKey, Micros]]
    priorities: dict[str, int]
    flavors: dict[str, kueue.ResourceFlavorSpec]
    cluster_queues: dict[str, str]
    concurrent: list[str]
    config: kueue.ConfigurationSpec
    limits_used: bool
    limit_ranges: list[tuple[str, str, LimitRangeSpec]]
    overheads: dict[str, Amounts]
    adjusting: list[tuple[JobKey, int]]
    messages: list[Kept]
    backlog: list[Kept]
    presence: list[Kept]
    todo: list[JobKey]
    job_kinds: dict[str, JobKindSpec]


_DECODER = msgspec.msgpack.Decoder(Snapshot)


def dump(state: State) -> bytes:
    """Return the whole state. Orders are those of the fold, which are part of it."""
    read_all_manifests(state)
    found = Snapshot(
        jobs=list(state.jobs.values()),
        finished=list(state.finished.values()),
        claimed=[(executor, list(jobs.items())) for executor, jobs in state.claimed.items()],
        executors=list(state.executors.items()),
        away=list(state.away),
        expiry=sorted(state.expiry),
        aging=[(key, job, at) for key, (job, at) in state.aging.items()],
        priorities=dict(sorted(state.priorities.items())),
        flavors=dict(sorted(state.flavors.items())),
        cluster_queues=dict(sorted(state.cluster_queues.items())),
        concurrent=list(state.concurrent),
        config=state.config,
        limits_used=state.limits_used,
        limit_ranges=[
            (namespace, name, spec)
            for namespace, here in sorted(state.limit_ranges.items())
            for name, spec in sorted(here.items())
        ],
        overheads=dict(sorted(state.overheads.items())),
        adjusting=list(state.adjusting.items()),
        messages=_kept(state, state.first),
        backlog=_kept(state, state.backlog.as_they_stand()),
        presence=[(waiting.seq, 0, waiting.subject, waiting.payload) for waiting in state.presence],
        todo=list(state.todo),
        job_kinds=dict(sorted(state.job_kinds.items())),
    )
    return msgspec.msgpack.encode(found)


def _kept(state: State, jobs: Iterable[JobKey]) -> list[Kept]:
    return [
        (waiting.seq, waiting.at, waiting.subject, waiting.payload)
        for key in jobs
        for waiting in state.inbox[key].values()
    ]


def load(data: bytes) -> State:
    """Return the state that `dump` wrote.

    Raises:
        msgspec.DecodeError: the bytes are broken or of another version.
    """
    found = _DECODER.decode(data)
    state = State(
        jobs={job.key: job for job in found.jobs},
        finished={finished.key: finished for finished in found.finished},
        finished_workloads={finished.workload: finished.key for finished in found.finished},
        by_workload={
            record.key: job
            for job in found.jobs
            for record in (job.record, job.pending)
            if record is not None
        },
        replaced={key: job for job in found.jobs for key in job.history},
        claimed={executor: dict(jobs) for executor, jobs in found.claimed},
        executors=dict(found.executors),
        away=dict.fromkeys(found.away),
        expiry=found.expiry,
        aging={key: (job, at) for key, job, at in found.aging},
        priorities=found.priorities,
        flavors=found.flavors,
        cluster_queues=found.cluster_queues,
        concurrent=dict.fromkeys(found.concurrent),
        config=found.config,
        limits_used=found.limits_used,
        overheads=found.overheads,
        adjusting=dict(found.adjusting),
        todo=dict.fromkeys(found.todo),
        job_kinds=found.job_kinds,
    )
    state.describe_kinds()
    for namespace, name, spec in found.limit_ranges:
        state.limit_ranges.setdefault(namespace, {})[name] = spec
    for messages, first in ((found.messages, True), (found.backlog, False)):
        for seq, at, subject, payload in messages:
            key, waiting = inbound(Message(subject=subject, payload=payload), seq, at)
            state.receive(key, waiting, first=first)
    for seq, _, subject, payload in found.presence:
        state.presence.append(presence(Message(subject=subject, payload=payload), seq))
    return state
