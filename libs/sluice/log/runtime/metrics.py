"""Counters of a runner. Plain numbers: `sluice.telemetry` reads them when somebody asks."""

from dataclasses import dataclass, field

from sluice.log.writer import Written

COMMIT_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
"""Upper bounds of the histogram of commit latencies; one more for the rest."""


@dataclass(slots=True)
class RunnerMetrics:
    """Counters since the process began, and gauges as of the last turn of the loop."""

    writer: str
    role: str = "starting"
    folded: int = 0
    steps: int = 0
    events: int = 0
    commits: int = 0
    takeovers: int = 0
    fenced: int = 0
    snapshots: int = 0
    upto: int = 0
    lag: int = 0
    commit_seconds: float = 0.0
    commit_counts: list[int] = field(default_factory=lambda: [0] * (len(COMMIT_BUCKETS_S) + 1))

    def committed(self, written: Written) -> None:
        self.commits += 1
        self.events += sum(len(step.events) for step in written.steps)
        self.commit_seconds += written.seconds
        for index, bound in enumerate(COMMIT_BUCKETS_S):
            if written.seconds <= bound:
                self.commit_counts[index] += 1
                return
        self.commit_counts[-1] += 1
