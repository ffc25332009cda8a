"""What the opening of a scene is made of: objects and jobs with a purpose, and who may do what meanwhile."""

from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluice.core.slices.state import Phase
from sluice.events.base import Event, JobKey
from sluice.events.job import JobScaled
from sluice.protocol.subjects import verdict_suffix
from sluice.sdk.checks import _actions as act
from sluice.services.agent.pods import Pod

from .calm import ALARMS, Calm
from .choices import Choices
from .executors import Executor
from .grammar import KUEUE, OWN, Manifest, manifest
from .log import SECOND, steps_of
from .pods import BEGINNING, ENDING, Work

if TYPE_CHECKING:
    from .actions import Actions

PREFIX = "kueue.x-k8s.io/"
ROUNDS = 40
"""So many rounds at most until an opening goes on."""
ALL: Any = type("All", (), {"__contains__": lambda _self, _item: True})()


def quotas(resource: str = "cpu", /, **flavors: int | Manifest) -> Manifest:
    """Return a resource group: flavor -> nominal quota, or all that is said of it."""
    return {
        "coveredResources": [resource],
        "flavors": [
            {
                "name": name,
                "resources": [
                    {"name": resource, **(quota if isinstance(quota, dict) else {"nominalQuota": quota})}
                ],
            }
            for name, quota in flavors.items()
        ],
    }


def queue(name: str, *groups: Manifest, cohort: str = "", checks: Any = (), **spec: Any) -> Manifest:
    """Return a ClusterQueue; *checks*: names, or rules."""
    found: Manifest = {"namespaceSelector": {}, "resourceGroups": list(groups), **spec}
    if cohort:
        found["cohortName"] = cohort
    if checks:
        rules = [each if isinstance(each, dict) else {"name": each} for each in checks]
        found["admissionChecksStrategy"] = {"admissionChecks": rules}
    return manifest("ClusterQueue", name, found)


def racing(mode: str = "TryPreferredFlavors", /, **variants: list[str]) -> Manifest:
    """Return a concurrentAdmissionPolicy, with explicit variants if any are named."""
    found: Manifest = {"migration": {"mode": mode}}
    if variants:
        found["explicitVariants"] = [
            {"name": name, "allowedResourceFlavors": flavors} for name, flavors in variants.items()
        ]
    return found


def check(name: str, controller: str, **spec: Any) -> Manifest:
    return manifest("AdmissionCheck", name, {"controllerName": controller, **spec})


def settings(**spec: Any) -> Manifest:
    return manifest("Configuration", "default", spec, OWN)


def completed(found: list[Manifest]) -> list[Manifest]:
    """Add what the queues need and nobody has said: flavors, priorities, cohorts, local queues lqN for qN."""
    there = {(each["kind"], each["metadata"]["name"]) for each in found}
    queues = [each for each in found if each["kind"] == "ClusterQueue"]
    flavors = dict.fromkeys(
        flavor["name"]
        for each in queues
        for group in each["spec"]["resourceGroups"]
        for flavor in group["flavors"]
    )
    cohorts = dict.fromkeys(each["spec"]["cohortName"] for each in queues if "cohortName" in each["spec"])
    more = [] if ("Configuration", "default") in there else [settings()]
    more += [manifest("ResourceFlavor", name, {"nodeLabels": {"pool": name}}) for name in flavors]
    more += [
        {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("low", 0), ("middle", 100), ("high", 200))
    ]
    more += [manifest("Cohort", name, {}) for name in cohorts if ("Cohort", name) not in there]
    local = [
        manifest(
            "LocalQueue", f"l{each['metadata']['name']}", {"clusterQueue": each["metadata"]["name"]},
            namespace="default",
        )
        for each in queues
    ]  # fmt: skip
    return [*more, *found, *local]


class _Rounds(Calm):
    """Everybody does all there is to do, but for what the stage forbids; nothing ends by itself."""

    stage: "Stage"

    def _controllers(self) -> bool:
        if self.stage.answers:
            return super()._controllers()
        return sum(self._did(each.follow(10_000)) for each in self.cell.controllers) > 0

    def _awake(self, executor: Executor) -> bool:
        return executor.name not in self.stage.asleep

    def _work(self, work: Work) -> bool:
        name = work.entry.job.partition("/")[2]
        found = self._did(work.tick())
        for pod in work.pods(BEGINNING) if name in self.stage.starts else ():
            work.starts(pod)
            found |= self._did(True)
        for pod in work.pods(ENDING) if name in self.stage.stops else ():
            work.exits(pod, -15)
            found |= self._did(True)
        return found


@dataclass
class Stage:
    actions: "Actions"
    answers: bool = True
    """Do controllers answer, Ready and at once?"""
    starts: Container[str] = ALL
    """The jobs whose pods start as soon as they are told to."""
    stops: Container[str] = ALL
    """The jobs whose pods end as soon as they are told to."""
    asleep: Container[str] = ()
    """The executors that do nothing, although they are there."""
    rounds: _Rounds = field(init=False)

    def __post_init__(self) -> None:
        self.cell = self.actions.cell
        self.rounds = _Rounds(self.cell, self.actions, ends=False)
        self.rounds.stage = self

    @property
    def choices(self) -> Choices:
        return self.cell.choices

    # people

    def apply(self, *manifests: Manifest) -> None:
        """Apply what people have edited.

        Raises:
            ValueError: it was refused, which is a mistake of the scene.
        """
        refused = self.cell.apply(*manifests)
        if refused:
            raise ValueError("; ".join(refused))
        for each in manifests:
            self.actions.grammar.note(each)
        self.cell.watchman.touched_by_people()

    def edit(self, kind: str, name: str, **spec: Any) -> None:
        """Change parts of an object's spec; None takes one out."""
        before = self.actions.grammar.objects[kind, name]
        changed = {key: value for key, value in {**before["spec"], **spec}.items() if value is not None}
        self.apply({**before, "spec": changed})

    def repoint(self, name: str, queue: str) -> None:
        """Delete a LocalQueue and make it again for another ClusterQueue."""
        before = self.actions.grammar.objects["LocalQueue", name]
        if before["spec"]["clusterQueue"] != queue:
            self.cell.delete("LocalQueue", name)
            self.cell.finalize()
            self.apply({**before, "spec": {**before["spec"], "clusterQueue": queue}})

    def submit(self, name: str, queue: str = "q0", count: int = 1, /, **more: Any) -> None:
        """Submit a job of ours: `cpu` and `gpu` of each pod, or `sets` of (count, cpu); `fewest` pods,
        `priority`; and annotations without their prefix, as `cannot_borrow`."""
        labels = {f"{PREFIX}queue-name": f"l{queue}"}
        if "priority" in more:
            labels[f"{PREFIX}priority-class"] = more.pop("priority")
        spec: Manifest = {}
        if "sets" in more:
            spec["podSets"] = [
                {"name": f"s{n}", "command": ["true"], "replicas": count, "resources": {"cpu": str(cpu)}}
                for n, (count, cpu) in enumerate(more.pop("sets"))
            ]
        else:
            requests = {
                each: str(more.pop(each))
                for each in ("cpu", "gpu")
                if each in more and more[each] is not None
            }
            spec = {"command": ["true"], "replicas": count, "resources": requests or {"cpu": "1"}}
            if "fewest" in more:
                spec["minReplicas"] = more.pop("fewest")
        annotations = {f"{PREFIX}{key.replace('_', '-')}": str(value) for key, value in more.items()}
        meta = {"name": name, "namespace": "default", "labels": labels, "annotations": annotations}
        self.cell.submit({"apiVersion": OWN, "kind": "Job", "metadata": meta, "spec": spec})

    def indexed(self, name: str, queue: str, count: int, completions: int, *, follows: bool) -> None:
        """Submit an elastic Indexed Job; *follows*: its completions are as many as its pods."""
        labels = {f"{PREFIX}queue-name": f"l{queue}"}
        notes = {f"{PREFIX}elastic-job": "true"}
        if follows:
            notes[f"{PREFIX}job-completions-equal-parallelism"] = "true"
            completions = count
        container = {"name": "main", "image": "busybox", "command": ["true"]}
        pod = {
            "containers": [{**container, "resources": {"requests": {"cpu": "1"}}}],
            "restartPolicy": "Never",
        }
        spec: Manifest = {"parallelism": count, "completions": completions, "completionMode": "Indexed"}
        spec |= {"suspend": True, "template": {"spec": pod}}
        meta = {"name": name, "namespace": "default", "labels": labels, "annotations": notes}
        self.cell.submit({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})

    def scale(self, name: str, count: int) -> None:
        self.sizes(name, main=count)

    def sizes(self, name: str, **counts: int) -> None:
        self.cell.message(f"job.default.{name}", "JobScaled", JobScaled(pod_sets=counts))
        self.cell.watchman.touched_by_people()

    # time and the others

    def team(self, count: int) -> list[Executor]:
        """Return the executors, who are *count* at least from now on; each takes any work."""
        cell = self.cell
        for number in range(len(cell.executors), count):
            cell.executors.append(Executor(cell, f"e{number}"))
            cell.executors[-1].begin()
        return cell.executors

    def settle(self) -> None:
        """Let everybody do what there is to do, as the stage allows."""
        waits = 0
        for _ in range(ROUNDS):
            if self.rounds._round():
                continue
            if waits == ALARMS or self.stops is not ALL or not self._stopping():
                break
            waits += 1
            self.wait(3)  # executors look around every few seconds
        self.cell.watchman.rested()

    def _stopping(self) -> bool:
        return any(job.phase is Phase.STOPPING for job in self.cell.watchman.slices.jobs.values())

    def until(self, kind: type[Event]) -> bool:
        """Go on round by round until an event of this kind is in the log."""
        entries = self.cell.log.entries
        for _ in range(ROUNDS):
            seen = len(entries)
            busy = self.rounds._round()
            for entry in entries[seen:]:
                if "." not in entry.suffix and any(
                    isinstance(event, kind) for step in steps_of(entry) for event in step.events
                ):
                    return True
            if not busy:
                break
        return False

    def wait(self, seconds: float) -> None:
        self.cell.wait(int(seconds * SECOND))

    @contextmanager
    def away(self, *writers: str) -> Iterator[None]:
        """Let services lag: they hear of nothing meanwhile."""
        replicas = [each for each in self.cell.replicas if each.writer in writers and not each.paused]
        for each in replicas:
            each.paused = True
        yield
        for each in replicas:
            each.paused = False

    def decides(self, writer: str) -> None:
        """Let a leader decide on what it has not heard yet; what others say meanwhile is in the log first."""
        leader = self.cell.leader(writer)
        if leader is not None:
            leader.take_in(10_000)

    def _works(self, name: str) -> list[Work]:
        lives = [each.life for each in self.cell.executors if each.life is not None]
        key = JobKey(f"default/{name}")
        return [work for life in lives for work in life.works.values() if work.entry.job == key]

    def end(self, name: str, most: int = 1_000_000) -> None:
        """What runs of the job does its work, *most* pods of it."""
        for work in self._works(name):
            for pod in work.pods(frozenset({Pod.RUNNING}))[:most]:
                if not work.over and work.machine.state(pod) is Pod.RUNNING:
                    work.exits(pod, 0)

    def verdict(self, job: str, name: str, state: str) -> None:
        """Somebody says what a check says of all that the job waits for, as people may."""
        for key in self.cell.watchman.workloads.get(JobKey(f"default/{job}"), ()):
            attempt, checks = self.cell.watchman.asked.get(key, (0, ()))
            if name in checks:
                data = {"workload": key, "check": name, "attempt": attempt, "state": state}
                for controller in self.cell.controllers:
                    self.cell.message(verdict_suffix(controller.name), "CheckVerdict", data)

    def answer(self, name: str, answer: Any) -> bool:
        """Let the function that performs this check return, for all that it is asked."""
        found = False
        for controller in self.cell.controllers:
            term = controller.term
            for call in list(term.calls.values()):
                if call.request.check == name and not call.watching and call.call not in term.cancelled:
                    term.ends(call, act.Answered(answer))
                    found = True
            for publish in list(term.publishing.values()):
                term.publish(publish)
        return found


__all__ = ["ALL", "Stage", "check", "completed", "queue", "quotas", "racing", "settings"]
