"""The scheduler's state as bytes: canonical, and nothing in it that can be derived.

Quota usage follows from the reservations, queues and their order from the workloads, deadlines from the
life-cycle. Lists whose order means nothing are sorted, so that equal states give equal bytes.
"""

from collections.abc import Iterator
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, get_type_hints

import msgspec

from sluice.api import kueue
from sluice.api.meta import ObjectMeta
from sluice.core.lifecycle import due
from sluice.core.queueing.pending_queue import CohortQueues, EquivalenceClass, PendingQueue, Preemptor
from sluice.core.workload.pending_reasons import WAITING_FOR_PODS_READY
from sluice.core.world.activity import Status
from sluice.core.world.model import AdmissionCheck, LocalQueue
from sluice.core.world.preemption_history import Remembered
from sluice.core.world.queue_order import effective_priority
from sluice.core.world.reservations import index
from sluice.core.world.workload import Workload
from sluice.events.base import Micros, WorkloadKey

from . import fold_config, queue_status
from .placement import put_back
from .settle_config import settle_config
from .state import SchedulerState, new_state


class _Part(msgspec.Struct, frozen=True, array_like=True):
    """Base of the parts: arrays on the wire, as nobody reads them but `load` of the same version."""


class _Queue(_Part, frozen=True):
    manifest: kueue.ClusterQueue
    terminating: bool


_DERIVED: Final = frozenset(
    {"key", "uid", "priority", "finished", "peers", "rank", "identity", "equivalence"}
)
"""What of a workload follows from all else; every other field is stored."""

_ENCODED: Final = {"usage": list[tuple[str, str, int]], "victims": list[WorkloadKey]}
"""What is stored in another form."""

_TYPES = get_type_hints(Workload)
_Workload: Any = msgspec.defstruct(
    "_Workload",
    [(f.name, _ENCODED.get(f.name, _TYPES[f.name])) for f in fields(Workload) if f.name not in _DERIVED],
    bases=(_Part,),
    frozen=True,
)
"""The order of the fields of `Workload` is the format; `victims` is the last of it."""

_PLAIN = tuple(
    name for name in _Workload.__struct_fields__ if name not in ("record", "cluster_queue", *_ENCODED)
)
_plain_of = attrgetter(*_PLAIN)


class _Class(_Part, frozen=True):
    """A class of equal workloads, named by its head."""

    head: WorkloadKey
    parked: bool
    aside: bool
    reserves: bool
    reason: str
    message: str
    scan: tuple[dict[str, int], ...] | None
    circling: bool
    indexed: bool
    searched: bool
    begun: bool
    """Nothing was given back since the search began that goes on."""


class _Waiting(_Part, frozen=True):
    workload: WorkloadKey
    victims: list[WorkloadKey]
    usage: list[tuple[str, str, int]]
    borrowing: int
    recheck: bool
    reason: str
    message: str
    flavors: dict[str, dict[str, str]] = {}


class _Tree(_Part, frozen=True):
    name: str
    is_cohort: bool
    dirty: bool
    freed: list[str]
    open: list[str]
    cause: int
    fresh: bool


class _State(_Part, frozen=True):
    at: Micros
    config_seq: int
    config: kueue.ConfigurationSpec
    namespaces: dict[str, dict[str, str]]
    flavors: list[kueue.ResourceFlavor]
    checks: dict[str, tuple[str, bool, str]]
    cohorts: dict[str, kueue.CohortSpec]
    cluster_queues: list[_Queue]
    local_queues: list[tuple[str, str, str]]
    workloads: list[_Workload]
    classes: list[_Class]
    waiting: list[_Waiting]
    trees: list[_Tree]
    not_ready: list[WorkloadKey]
    statuses: dict[str, Status]
    local_statuses: dict[str, Status]
    circles: list[Remembered]
    issuing: list[tuple[WorkloadKey, int]]
    """Claimants that may preempt now, with the cause: a state need not be settled."""


_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder(_State)


def dump(state: SchedulerState) -> bytes:
    """Return the bytes of *state*; equal states give equal bytes."""
    return _encoder.encode(_freeze(state))


def load(data: bytes) -> SchedulerState:
    """Return the state that *data* is the dump of."""
    return _thaw(_decoder.decode(data))


def _freeze(state: SchedulerState) -> _State:
    world, pending = state.world, state.pending
    queue_list = [pending.queues[name] for name in sorted(pending.queues)]
    return _State(
        at=state.at,
        config_seq=state.config_seq,
        config=world.config,
        namespaces=world.namespaces,
        flavors=[world.flavors[name] for name in sorted(world.flavors)],
        checks={
            name: (check.controller_name, check.active, check.preemption_policy)
            for name, check in world.checks.items()
        },
        cohorts=world.cohorts,
        cluster_queues=[
            _Queue(_manifest(name, world.cluster_queues[name].spec), world.cluster_queues[name].terminating)
            for name in sorted(world.cluster_queues)
        ],
        local_queues=[
            (key, world.local_queues[key].cluster_queue, world.local_queues[key].stop_policy)
            for key in sorted(world.local_queues)
        ],
        workloads=[_freeze_workload(world.workloads[key]) for key in sorted(world.workloads)],
        classes=[part for queue in queue_list for part in _freeze_classes(queue)],
        waiting=[
            _freeze_waiting(queue.waiting[key]) for queue in queue_list for key in sorted(queue.waiting)
        ],
        trees=[
            _freeze_tree(tree)
            for tree in sorted(pending.trees.values(), key=attrgetter("sort_key"))
            if tree.dirty or tree.open or tree.cause
        ],
        not_ready=sorted(state.not_ready),
        statuses=state.statuses,
        local_statuses=state.local_statuses,
        circles=list(world.circles.dump()),
        issuing=sorted(world.pending_preemptions.due.items()),
    )


def _manifest(name: str, spec: kueue.ClusterQueueSpec) -> kueue.ClusterQueue:
    return kueue.ClusterQueue(metadata=ObjectMeta(name=name), spec=spec)


def _freeze_workload(workload: Workload) -> Any:
    # By position: by name it takes twice the time, in which nothing is decided.
    active, assignment, *rest = _plain_of(workload)
    # Where it waits follows from the local queue; only a reservation fixes it.
    cluster_queue = workload.cluster_queue if assignment is not None else ""
    usage = [(flavor, resource, n) for (flavor, resource), n in workload.usage.items()]
    usage.sort()
    rest.append(sorted(workload.victims) if workload.victims else [])
    return _Workload(workload.record, cluster_queue, active, assignment, usage, *rest)


def _freeze_classes(queue: PendingQueue) -> Iterator[_Class]:
    found = [
        _Class(
            peers.head().key,
            peers.parked,
            peers.aside,
            peers.reserves,
            peers.reason,
            peers.message,
            peers.scan,
            peers.circling,
            peers.indexed,
            queue.tree is not None and queue.tree.is_searched(peers),
            queue.tree is not None and peers.scan is not None and peers.began == queue.tree.releases,
        )
        for peers in queue.classes.values()
        if peers.waiting is None and (peers.parked or peers.reason or peers.scan is not None)
    ]
    found.sort(key=attrgetter("head"))
    yield from found


def _freeze_waiting(waiting: Preemptor) -> _Waiting:
    peers = waiting.workload.peers
    assert peers is not None
    return _Waiting(
        waiting.workload.key,
        sorted(waiting.victims),
        sorted((flavor, resource, n) for (flavor, resource), n in waiting.usage.items()),
        waiting.borrowing,
        waiting.recheck,
        peers.reason,
        peers.message,
        {name: dict(flavors) for name, flavors in waiting.flavors.items()},
    )


def _freeze_tree(tree: CohortQueues) -> _Tree:
    freed, still_open = sorted(tree.freed), sorted(tree.open)
    return _Tree(tree.name, tree.is_cohort, tree.dirty, freed, still_open, tree.cause, tree.fresh)


def _thaw(data: _State) -> SchedulerState:
    state = new_state()
    world = state.world
    state.at, state.config_seq = data.at, data.config_seq
    world.config = data.config
    world.namespaces = data.namespaces
    world.flavors = {flavor.metadata.name: flavor for flavor in data.flavors}
    world.checks = {name: AdmissionCheck(*check) for name, check in data.checks.items()}
    state.statuses, state.local_statuses = data.statuses, data.local_statuses
    for name, spec in data.cohorts.items():
        fold_config.apply_cohort(state, fold_config.cohort_manifest(name, spec))
    for part in data.cluster_queues:
        fold_config.apply_cluster_queue(state, part.manifest, terminating=part.terminating)
    settle_config(state)
    for key, target, policy in data.local_queues:
        world.local_queues[key] = LocalQueue(key, target, policy)
        state.locals_of.setdefault(target, {})[key] = None
    for item in data.workloads:
        _thaw_workload(state, item)
    for workload in world.workloads.values():
        if workload.assignment is None:
            put_back(state, workload)
    for cq in world.cluster_queues.values():
        index(cq)
    for name in world.cluster_queues:
        queue_status.refresh(state, name)
    for key in world.local_queues:
        queue_status.refresh_local(state, key)
    world.circles.load(data.circles)
    _thaw_verdicts(state, data)
    world.pending_preemptions.due = dict(data.issuing)
    state.not_ready = dict.fromkeys(data.not_ready)
    state.lifecycle = due.rebuild(world, data.at)
    return state


def _thaw_workload(state: SchedulerState, item: Any) -> None:
    world = state.world
    record = item.record
    key = record.key
    # By position, as this is most of what a start takes.
    _, cluster_queue, active, assignment, usage, *plain, victims = msgspec.structs.astuple(item)
    charged = {(flavor, resource): amount for flavor, resource, amount in usage}
    workload = Workload(
        *(record, key, record.uid, effective_priority(record, world.config)),
        *(cluster_queue, active, assignment, charged, *plain, dict.fromkeys(victims)),
    )
    if workload.preemptions:
        world.pending_preemptions.put(workload)
    world.workloads[key] = workload
    if record.replaces is not None:
        world.replacements[record.replaces] = key
    if record.parent is not None:
        world.families.setdefault(record.parent, {})[key] = workload
    state.members.setdefault(f"{record.namespace}/{record.queue_name}", {})[key] = None
    cq = world.cluster_queues.get(item.cluster_queue)
    if workload.assignment is not None and cq is not None:
        world.tree.add(cq.node, workload.usage)
        cq.workloads[workload.key] = workload


def _thaw_verdicts(state: SchedulerState, data: _State) -> None:
    pending, workloads = state.pending, state.world.workloads
    for part in data.classes:
        peers = workloads[part.head].peers
        assert isinstance(peers, EquivalenceClass)
        peers.reason, peers.message = part.reason, part.message
        if part.parked:
            pending.park(peers, aside=part.aside, reserves=part.reserves, hopeless=not part.indexed)
        peers.scan = part.scan
        peers.circling = part.circling
        if part.circling:
            state.world.circles.refused[peers.queue.name] = None
    for item in data.waiting:
        workload = workloads[item.workload]
        usage = {(flavor, resource): amount for flavor, resource, amount in item.usage}
        waiting = Preemptor(workload, item.victims, usage, item.borrowing, item.flavors)
        waiting.recheck = item.recheck
        waiting.held = item.reason == WAITING_FOR_PODS_READY
        pending.wait(waiting)
        assert workload.peers is not None
        workload.peers.reason, workload.peers.message = item.reason, item.message
    for part in data.classes:  # last, as an epoch may grow while queues are filled
        found = workloads[part.head].peers
        tree = found.queue.tree
        found.began = tree.releases if part.begun and tree is not None else 0
        if part.parked:
            found.searched = tree.epoch if part.searched and tree is not None else 0
    trees = {tree.sort_key: tree for tree in pending.trees.values()}
    for tree in pending.trees.values():
        pending.settled(tree, [])
    for part_tree in data.trees:
        tree = trees[part_tree.name, part_tree.is_cohort]
        pending.settled(tree, [pending.queues[name] for name in part_tree.open])
        if part_tree.dirty:
            for queue in pending.queues.values():
                if queue.tree is tree:
                    pending.wake(queue, flavors=part_tree.freed)
        tree.cause, tree.fresh = part_tree.cause, part_tree.fresh
