"""What people ask, at any moment: get, describe, why, simulate, history. Nothing may fail.

The api's own read model follows the log; `describe` prints what the CLI would; `why` and `simulate` look at
copies of what the leaders have.
"""

from collections.abc import Awaitable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from sluice.cli.commands.objects.describe import lines_of
from sluice.cli.kit.resources import RESOURCES
from sluice.core.scheduler.decider import Scheduler
from sluice.core.slices.submission import parse, read
from sluice.events.ids import uid
from sluice.events.slices import WorkloadCreated, WorkloadRecord
from sluice.log.contract import Entry
from sluice.protocol.query import HistoryRequest, ListAnswer, ListRequest, Object
from sluice.protocol.subjects import COMMITS
from sluice.readmodel import queries, snapshot
from sluice.readmodel.world import World
from sluice.replay.explain import racing_sandbox
from sluice.replay.explain.sandbox import Sandbox
from sluice.replay.explain.why import Others, explain
from sluice.replay.explain.why_text import plain_words

from .log import steps_of

if TYPE_CHECKING:
    from .cell import Cell

KINDS = ("Job", "Workload", "Variant", "Slice", "Agent", "ClusterQueue", "LocalQueue", "Cohort",
         "AdmissionCheck", "ResourceFlavor")  # fmt: skip
DESCRIBED = ("Job", "Workload", "Variant", "Slice", "ClusterQueue", "LocalQueue", "Cohort", "AdmissionCheck",
             "ResourceFlavor")  # fmt: skip
FEW = 2
KEPT = 3
"""So many stored read models may be gone on from."""
NAMED = {resource.kind: resource for resource in RESOURCES}

_COMMITS = frozenset(COMMITS)


def now[T](coroutine: Coroutine[Any, Any, T] | Awaitable[T]) -> T:
    """Return what a coroutine returns that has nothing to wait for."""
    try:
        coroutine.__await__().__next__()
    except StopIteration as stopped:
        found: T = stopped.value
        return found
    raise RuntimeError("it waits for something")


@dataclass
class LocalApi:
    """The api service as the CLI knows it, without a server."""

    world: World

    async def list(self, request: ListRequest) -> ListAnswer:
        return await queries.list_objects(self.world, request)

    async def get(self, kind: str, name: str, namespace: str = "", min_seq: int = 0) -> Object | None:  # noqa: ARG002
        found = await queries.list_objects(self.world, ListRequest(kind=kind, name=name, namespace=namespace))
        return found.items[0] if found.items else None

    async def history(self, request: HistoryRequest) -> ListAnswer:
        return queries.history(self.world, request)


@dataclass
class Queries:
    cell: "Cell"
    world: World = field(default_factory=World)
    position: int = 0
    kept: list[tuple[int, int, snapshot.Parts]] = field(default_factory=list)
    """What was stored of the read model: its sequence and time, and its bytes."""

    def follow(self) -> None:
        """Fold what has come into the log."""
        entries = self.cell.log.entries
        for entry in entries[self.position :]:
            self._fold(entry)
        self.position = len(entries)

    def _fold(self, entry: Entry) -> None:
        world = self.world
        if entry.suffix in _COMMITS:
            world.seq, world.at = entry.seq, entry.at
            world.heads[entry.suffix] = (entry.seq, entry.at)
            world.steps(entry.seq, steps_of(entry))
        else:
            world.fold((entry,))

    def ask(self) -> bool:
        """Ask one thing."""
        self.follow()
        choices = self.cell.choices
        if self.cell.on.view_snapshots and choices.chance(0.2):
            return self.restart()
        match choices.below(5):
            case 0:
                return self.get(choices.pick(KINDS))
            case 1 | 2:
                return self.describe(choices.pick(DESCRIBED))
            case 3:
                return self.why()
            case _:
                return self.simulate()

    def restart(self) -> bool:
        """The service ends, and begins with what it has stored; or it stores what it knows."""
        choices, kept = self.cell.choices, self.kept
        if not kept or choices.chance(0.5):
            world = self.world
            kept.append((self.position, world.at, snapshot.dump(world)))
            del kept[:-KEPT]
            return True
        self.position, at, parts = choices.pick(kept)
        self.world = snapshot.load(parts, self.position, at)
        self.follow()
        self.cell.stats.fault("view-restored")
        return True

    def rebuilt(self) -> Iterator[str]:
        """Yield where a read model that has gone on from what was kept is not what the whole log makes it."""
        if not self.kept:
            return
        self.follow()
        fresh = Queries(self.cell)
        fresh.follow()
        for name, one, other in zip(
            ("cell", "rest"), snapshot.dump(self.world), snapshot.dump(fresh.world), strict=True
        ):
            if one != other:
                at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
                near = slice(max(0, at - 60), at + 60)
                yield f"{name}: went on as {one[near]!r}, the log makes it {other[near]!r}"

    def get(self, kind: str) -> bool:
        found = now(queries.list_objects(self.world, ListRequest(kind=kind)))
        for obj in found.items:
            metadata = obj["metadata"]
            request = ListRequest(kind=kind, name=metadata["name"], namespace=metadata.get("namespace", ""))
            now(queries.list_objects(self.world, request))
        return bool(found.items)

    def describe(self, kind: str) -> bool:
        found = now(queries.list_objects(self.world, ListRequest(kind=kind))).items
        if not found:
            return False
        api: Any = LocalApi(self.world)
        obj = self.cell.choices.pick(found)
        now(lines_of(api, NAMED[kind], obj))
        return True

    def everything(self) -> None:
        """Get all there is, and describe a few of each kind."""
        self.follow()
        api: Any = LocalApi(self.world)
        for kind in KINDS:
            found = now(queries.list_objects(self.world, ListRequest(kind=kind))).items
            if kind in DESCRIBED:
                for obj in found[:FEW]:
                    now(lines_of(api, NAMED[kind], obj))

    def _settled(self, writer: str) -> Any:
        """Return the state of a service's leader that has nothing left to say, None if it has."""
        leader = self.cell.leader(writer)
        return leader.state if leader is not None and leader.idle else None

    def why(self) -> bool:
        """Ask why some workload is not admitted."""
        state = self._settled("scheduler")
        if state is None or not state.world.workloads:
            return False
        key = self.cell.choices.pick(list(state.world.workloads))
        others = Others(families=self._settled("variants"), checks=self._settled("checks"))
        leader = self.cell.leader("scheduler")
        assert leader is not None
        fold = leader.machine.fold
        copy = Scheduler().load(Scheduler().dump(state))
        report = explain(copy, key, fold.upto, fold.at, others=others)
        for _ in plain_words(report):
            pass
        return True

    def simulate(self) -> bool:
        """Ask what would become of a job."""
        state, families = self._settled("scheduler"), self._settled("variants")
        leader = self.cell.leader("scheduler")
        if state is None or leader is None or not self.cell.manifests:
            return False
        fold = leader.machine.fold
        record = self._record(fold.upto, fold.at, state)
        if record is None:
            return False
        if racing_sandbox.policy_for(state, record) is not None:
            if families is None:
                return False
            racing_sandbox.Race(state, families, fold.upto, fold.at).run(record)
        else:
            sandbox = Sandbox(state, fold.upto, fold.at, forks=False)
            created = WorkloadCreated(cause=fold.upto, workload=record)
            sandbox.attempt((created,), record.key)
        return True

    def _record(self, seq: int, at: int, state: Any) -> WorkloadRecord | None:
        name = self.cell.choices.pick(list(self.cell.manifests))
        submission = parse(msgspec.json.encode(self.cell.manifests[name]), "default", name)
        if isinstance(submission, tuple):
            return None
        request = read(submission, state.world.config.feature_gates)
        if isinstance(request, tuple):
            return None
        return WorkloadRecord(
            namespace="default",
            name=f"job-{name}-simulated",
            uid=uid(seq + 1),
            queue_name=request.queue_name,
            created_at=at,
            pod_sets=request.pod_sets,
            priority=request.priority or 0,
            allowed_flavors=request.allowed_flavors,
            cannot_preempt=request.cannot_preempt,
            cannot_borrow=request.cannot_borrow,
            labels=dict(request.labels),
            annotations=dict(request.annotations),
        )

    def differences(self) -> Iterator[str]:
        """Yield where the view's usage is not what the scheduler charges; only of a cell at rest."""
        self.follow()
        holder = self.cell.services["scheduler"].holder
        assert holder is not None
        for name, queue in holder.state.world.cluster_queues.items():
            charged: dict[Any, int] = {}
            for workload in queue.workloads.values():
                for fr, amount in workload.usage.items():
                    charged[fr] = charged.get(fr, 0) + amount
            seen = self.world.view.cluster_queues.get(name)
            shown = {fr: amount for fr, amount in (seen.reservation if seen else {}).items() if amount}
            if shown != {fr: amount for fr, amount in charged.items() if amount}:
                yield f"{name}: the view shows {shown}, the scheduler charges {charged}"
            if seen is not None and set(seen.workloads) != set(queue.workloads):
                there = sorted(queue.workloads)
                yield f"{name}: the view has {sorted(seen.workloads)}, the scheduler {there}"


__all__ = ["Queries"]
