"""What must be true of the log after a fault run."""

from collections import Counter
from dataclasses import dataclass, field

from sluice.core.scheduler import Scheduler
from sluice.core.slices import SliceAggregator
from sluice.events.codec import decode_commit
from sluice.events.scheduler import QuotaReleased, QuotaReserved
from sluice.events.slices import WorkloadCreated, WorkloadDeleted, WorkloadFinished
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.jetstream import JetStreamLog
from sluice.log.subjects import matches_any
from sluice.replay.verify import Verdict, verify

DECIDERS: dict[str, type] = {"scheduler": Scheduler, "slices": SliceAggregator}


@dataclass
class Findings:
    lost: list[str] = field(default_factory=list)
    double: list[str] = field(default_factory=list)
    divergent: list[str] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    """Writer -> digest of the state that the log makes."""


async def read_all(url: str, cell: str = "main") -> list[Entry]:
    """Return the whole log."""
    log = await JetStreamLog(url, cell, name="fault-check").open()
    entries: list[Entry] = []
    async for batch in log.read(1, [*log_filters()]):
        entries += batch
    await log.close()
    return entries


def log_filters() -> tuple[str, ...]:
    return ("job.>", "presence.>", "config", "slices", "scheduler")


def redecide(decider: Decider, entries: list[Entry]) -> Verdict:  # type: ignore[type-arg]
    patterns = [*decider.reads, decider.writer]
    return verify(decider, [entry for entry in entries if matches_any(patterns, entry.suffix)])


def check(entries: list[Entry], submitted: set[str], digest: object) -> Findings:
    """Check the log: every submitted job finished once, quota never reserved twice, all re-decided equally.

    *digest*: bytes -> digest, as services compute it.
    """
    findings = Findings()
    finished: Counter[str] = Counter()
    job_of: dict[str, str] = {}
    reserved: set[str] = set()
    for entry in entries:
        if entry.suffix not in ("slices", "scheduler"):
            continue
        for step in decode_commit(entry.payload).steps:
            for event in step.events:
                if isinstance(event, WorkloadCreated) and event.workload.job is not None:
                    job_of[event.workload.key] = event.workload.job.key.partition("/")[2]
                elif isinstance(event, QuotaReserved):
                    if event.workload in reserved:
                        findings.double.append(f"{event.workload}: quota reserved twice, seq {entry.seq}")
                    reserved.add(event.workload)
                elif isinstance(event, QuotaReleased | WorkloadDeleted):
                    reserved.discard(event.workload)
                elif isinstance(event, WorkloadFinished):
                    reserved.discard(event.workload)
                    finished[job_of.get(event.workload, event.workload)] += 1
    findings.lost = sorted(submitted - finished.keys())
    findings.double += [f"{name}: finished {count} times" for name, count in finished.items() if count > 1]
    for writer, kind in DECIDERS.items():
        decider = kind()
        verdict = redecide(decider, entries)
        if verdict.divergence is not None:
            findings.divergent.append(f"{writer}: {verdict.divergence}")
        elif verdict.unsettled:
            findings.divergent.append(f"{writer}: not settled at the end: {verdict.unsettled[:3]}")
        findings.digests[writer] = digest(decider.dump(verdict.fold.state))  # type: ignore[operator]
    return findings
