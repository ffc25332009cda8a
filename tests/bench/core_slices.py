"""CPU cost of the slice-aggregator's decider alone, per job: `python -m tests.bench.core_slices [jobs]`.

Everything of one job's life: the submission is decoded, validated and made a workload; its quota and
admission are folded; it is resumed; its finish is decoded and folded. No log, no encoding of commits.
"""

import gc
import json
import sys
import time
from collections.abc import Sequence

import msgspec

from sluice.core.decision_loop import settle
from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.dispatch import dispatch_entry
from sluice.core.slices.state import State
from sluice.events.base import Event, PodSetAssignment
from sluice.events.codec import encode_message
from sluice.events.envelope import Message
from sluice.events.scheduler import Admitted, QuotaReserved
from tests.bench.scenario import LARGE_SCALE, job_manifest, manifests, plan
from tests.support.objects import applied

BATCH = 500


def run(count: int) -> dict[str, float]:
    """Return microseconds of CPU per job, by phase."""
    decider = SliceAggregator()
    state = decider.initial()
    clock = {"submit": 0.0, "admit": 0.0, "finish": 0.0, "dispatch": 0.0}
    seq = 0
    for manifest in manifests(LARGE_SCALE):
        seq += 1
        decider.apply(state, applied(manifest), seq, 0)
    planned = plan(LARGE_SCALE)[:count]
    submissions = [
        Message(
            subject=f"job.default.{job.name}", payload=message(job.name, "JobSubmitted", job_manifest(job))
        )
        for job in planned
    ]
    finishes = [
        Message(subject=f"job.default.{job.name}", payload=message(job.name, "JobFinished", {"attempt": 1}))
        for job in planned
    ]
    for begin in range(0, len(planned), BATCH):
        names = [job.name for job in planned[begin : begin + BATCH]]
        seq = timed(clock, "submit", decider, state, submissions[begin : begin + BATCH], seq)
        admitted: list[Event] = []
        for name in names:
            record = state.jobs[f"default/{name}"].record  # type: ignore[index]
            pods = record.pod_sets[0]
            assigned = PodSetAssignment(
                name=pods.name, count=pods.count, flavors={"cpu": "default"}, usage=pods.requests
            )
            admitted.append(
                QuotaReserved(cause=1, workload=record.key, cluster_queue="cq", pod_sets=(assigned,))
            )
            admitted.append(Admitted(cause=1, workload=record.key))
        seq = timed(clock, "admit", decider, state, admitted, seq)
        started = time.process_time()
        for name in names:
            dispatch_entry(state, f"default/{name}")  # type: ignore[arg-type]
        clock["dispatch"] += time.process_time() - started
        seq = timed(clock, "finish", decider, state, finishes[begin : begin + BATCH], seq)
    assert len(state.finished) == len(planned)
    return {phase: spent * 1e6 / len(planned) for phase, spent in clock.items()}


def encode(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def message(name: str, event_type: str, data: object) -> bytes:
    return encode_message(
        message_id=f"{name}-{event_type}",
        source="bench",
        event_type=event_type,
        subject=f"default/{name}",
        at=1_767_225_600_000_000,
        data=data,
    )


def timed(
    clock: dict[str, float],
    phase: str,
    decider: SliceAggregator,
    state: State,
    events: Sequence[Event],
    seq: int,
) -> int:
    started = time.process_time()
    for event in events:
        seq += 1
        decider.apply(state, event, seq, seq)
    for _ in settle(decider, state, seq, seq):
        pass
    clock[phase] += time.process_time() - started
    return seq


if __name__ == "__main__":
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    gc.disable()
    phases = run(jobs)
    result = {phase: round(us, 1) for phase, us in phases.items()}
    print(
        json.dumps(
            {"bench": "core_slices", "jobs": jobs, "cpu_us_per_job": round(sum(phases.values()), 1)} | result
        )
    )
