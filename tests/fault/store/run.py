"""One run of faults of the store: jobs flow, one fault follows another, and at the end all is compared."""

import asyncio
import contextlib
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from sluice.events.base import Event
from sluice.events.codec import decode_commit
from sluice.events.slices import WorkloadCreated, WorkloadDeleted, WorkloadFinished
from sluice.log.contract import Entry
from sluice.protocol.subjects import job_of
from sluice.replay.source import json_lines

from .cell import StoreCell, StoreSystem
from .comparing import divergent, whole_log
from .faults import BUCKETS, Faults, tried

QUIET_S = 120.0
"""After so long without one that ends, jobs that are left are lost."""

Fault = tuple[str, Callable[[Faults], Awaitable[float]]]
LONG: tuple[Fault, ...] = (
    ("all servers are started again", Faults.restart_servers),
    *((f"{what} deleted", partial(Faults.lose, what=what)) for what in (*BUCKETS, "snapshots")),
    *((f"rubbish in {what}", partial(Faults.spoil, what=what)) for what in BUCKETS),
    ("a server is killed", partial(Faults.kill_server, whose="another")),
    ("the leading server is killed", partial(Faults.kill_server, whose="leader")),
    ("a server falls silent", Faults.pause_server),
    ("executor with a lease: cut off", partial(Faults.partition, how="cut")),
    ("executor with a lease: nothing comes through", partial(Faults.partition, how="hold")),
    ("executor with onLoss Wait: cut off", Faults.partition_waiting),
    ("executor: nothing comes through for 3 s", Faults.hold_shortly),
    ("executors: everything 0.5 s late", Faults.delay),
    ("clocks two hours ahead for 2 s", Faults.clock),
    ("an older log is put back", Faults.restore),
)


@dataclass
class Report:
    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Fault -> seconds until it had healed."""
    healed: dict[str, str] = field(default_factory=dict)
    apart: list[str] = field(default_factory=list)
    """Runs at the same time that are nobody's fault: one had begun when an older log was put back."""
    jobs: int = 0
    lost: list[str] = field(default_factory=list)
    double: list[str] = field(default_factory=list)
    divergent: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Faults that did not heal, or not as is promised."""

    @property
    def any(self) -> bool:
        return bool(self.lost or self.double or self.divergent or self.wrong)

    def table(self) -> list[str]:
        rows = ["| fault | times | median | longest | healed when |", "|---|---|---|---|---|"]
        for name, times in self.times.items():
            median, longest = statistics.median(times), max(times)
            rows.append(f"| {name} | {len(times)} | {median:.1f} s | {longest:.1f} s | {self.healed[name]} |")
        return rows

    def last_line(self) -> str:
        count = sum(map(len, self.times.values())) + len(self.wrong)
        not_healed = f" ({len(self.wrong)} not healed)" if self.wrong else ""
        return (
            f"{count} faults{not_healed}, {self.jobs} jobs, {len(self.lost)} lost, "
            f"{len(self.double)} double, {len(self.divergent)} divergent"
        )


async def run(
    system: StoreSystem,
    faults: Sequence[Fault],
    *,
    seed: int,
    rounds: int = 1,
    pause_s: float = 0.3,
    tell: Callable[[str], None],
) -> Report:
    """Do each of the faults so often, while jobs flow; then let all jobs end, and compare."""
    report = Report()
    cell = StoreCell(system, seed)
    try:
        await cell.set_up()
        async with cell.executors():
            damage = Faults(cell)
            await damage.probe()
            flowing = asyncio.create_task(cell.flow(pause_s))
            for name, fault in (*faults,) * rounds:
                method = fault.func if isinstance(fault, partial) else fault
                report.healed[name] = (method.__doc__ or "").strip()
                try:
                    took = await fault(damage)
                except Exception as error:
                    # Whatever ends it, the faults behind it are still to come, and the comparison.
                    report.wrong.append(f"{name}: {type(error).__name__}: {error}")
                    tell(f"not healed: {report.wrong[-1]}")
                    cell.heal()
                    continue
                report.times[name].append(took)
                tell(f"{len(cell.runs):5} runs  {took:5.1f} s  {name}")
                if flowing.done():
                    flowing.result()
            flowing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await flowing
            entries = await _settled(cell, report)
        report.double, report.apart = cell.overlapping()
        with (system.directory / "log.jsonl").open("wb") as file:
            json_lines.write(entries, file)
        report.divergent = await asyncio.to_thread(divergent, entries)
    finally:
        await cell.client.close()
    return report


async def _settled(cell: StoreCell, report: Report) -> list[Entry]:
    """Wait until all jobs that the log has have ended; return the log."""
    left: set[str] = set()
    since = time.monotonic()
    while True:
        entries = await tried(partial(whole_log, cell.client)) or []
        now_left = _open(entries)
        if entries and not now_left:
            break
        if now_left != left:
            left, since = now_left, time.monotonic()
        elif time.monotonic() - since > QUIET_S:
            break
        await asyncio.sleep(0.5)
    report.jobs, report.lost = cell.submitted, sorted(now_left)
    return entries


def _open(entries: Sequence[Entry]) -> set[str]:
    """Return the jobs that were submitted, as far as the log knows, and have not ended."""
    submitted: set[str] = set()
    job_by_workload: dict[str, str] = {}
    ended: set[str] = set()
    for entry in entries:
        job = job_of(entry.suffix)
        if job is not None and b'"JobSubmitted"' in entry.payload:
            submitted.add(job)
        if entry.suffix != "slices":
            continue
        for event in _events(entry):
            match event:
                case WorkloadCreated(workload=record) if record.job is not None:
                    job_by_workload[record.key] = record.job.key
                case WorkloadFinished(workload=key) | WorkloadDeleted(workload=key):
                    ended.add(job_by_workload.get(key, ""))
    return submitted - ended


def _events(entry: Entry) -> list[Event]:
    return [event for step in decode_commit(entry.payload).steps for event in step.events]


__all__ = ["LONG", "Report", "run"]
