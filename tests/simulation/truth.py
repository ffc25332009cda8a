"""The truth about what runs: processes of attempts, which nobody but the simulator can see whole."""

from dataclasses import dataclass, field

from sluice.events.base import JobKey, WorkloadKey
from sluice.protocol.dispatch import DispatchEntry


@dataclass(slots=True)
class PodsTruth:
    """Pods of one set that run. `flavors`: resource -> flavor."""

    running: int
    flavors: dict[str, str]


@dataclass(eq=False, slots=True)
class Proc:
    """One attempt of a job, as it runs on one executor."""

    job: JobKey
    uid: str
    attempt: int
    workload: WorkloadKey
    executor: str
    instance: str
    pods: dict[str, PodsTruth]
    lost: bool = False
    """The cell has declared its executor lost while it ran: nothing is promised of it any more."""
    seq: int = 0
    """Of the dispatch entry that it goes by."""

    def count(self, name: str) -> int:
        found = self.pods.get(name)
        return 0 if found is None else found.running

    def __str__(self) -> str:
        pods = ", ".join(
            f"{each.running} {name} on {'/'.join(sorted(set(each.flavors.values())))}"
            for name, each in self.pods.items()
        )
        return f"{self.job} attempt {self.attempt} on {self.executor} ({pods})"


@dataclass
class Truth:
    procs: dict[JobKey, list[Proc]] = field(default_factory=dict)
    succeeded: dict[tuple[JobKey, str], str] = field(default_factory=dict)
    """(job, uid) whose work was really done -> by whom."""
    started: int = 0
    begun: dict[tuple[str, int], str] = field(default_factory=dict)
    """(uid, attempt) -> the process that has begun it."""
    changed: dict[JobKey, None] = field(default_factory=dict)
    """Jobs whose processes were started or resized since they were looked at."""

    def start(self, proc: Proc) -> None:
        self.procs.setdefault(proc.job, []).append(proc)
        self.changed[proc.job] = None
        self.started += 1

    def end(self, proc: Proc) -> None:
        mine = self.procs.get(proc.job)
        if mine is not None and proc in mine:
            mine.remove(proc)
            if not mine:
                del self.procs[proc.job]

    def of(self, job: JobKey) -> list[Proc]:
        return self.procs.get(job, [])

    def all(self) -> list[Proc]:
        return [proc for procs in self.procs.values() for proc in procs]


def pods_of(entry: DispatchEntry) -> dict[str, PodsTruth]:
    return {pods.name: PodsTruth(pods.ungated, pods.flavors) for pods in entry.pod_sets}


__all__ = ["PodsTruth", "Proc", "Truth", "pods_of"]
