"""Configuration objects: what they are now, and what applying or deleting one would change.

Pure: `Objects` is a fold over ObjectApplied and ObjectDeleted; a `Draft` plans a request against it and
says which events it leads to, or refuses it as an API server would. Applying is declarative: the manifest
is the whole object, labels and annotations included; what it leaves out is removed.

Deleting an object that others rely on makes it *terminating* (deletionTimestamp and the finalizer
`kueue.x-k8s.io/resource-in-use`), and it goes when the last user has gone:

| kind | in use while |
|---|---|
| ClusterQueue | a workload holds its quota |
| ResourceFlavor, AdmissionCheck | a ClusterQueue names it |
| an object of a team's own kind | an AdmissionCheck names it in its parameters |
| CustomResourceDefinition | there are objects of its kind |

A JobKind goes at once, whoever runs: a job goes by the mapping that it was made by for as long as it lives.
A Namespace with local queues or unfinished jobs is refused, its limit ranges go with it; all else is deleted
at once. A ClusterQueue that terminates admits nothing new, as one with stopPolicy Hold.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import msgspec

from sluice.api import check_parameters, custom, kueue, node_v1, sluice_v1
from sluice.api.core_v1 import LimitRange, Namespace
from sluice.api.mapped import JobKind
from sluice.api.meta import ObjectMeta
from sluice.events.base import Event, Micros
from sluice.events.codec import rfc3339
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.ids import uid

__all__ = [
    "DEFINITION",
    "KINDS",
    "NAMESPACED",
    "Clock",
    "Draft",
    "Objects",
    "manifest_of",
    "object_key",
    "order",
    "plan_finalize",
]

IN_USE = "kueue.x-k8s.io/resource-in-use"
"""The finalizer of an object that waits for its users to go."""

PROTECTED_NAMESPACE = "default"

_CONFIG_UIDS = 1 << 40
"""Added to the index of uids minted here, so that they never meet those of jobs and workloads."""

type ConfigObject = (
    kueue.ResourceFlavor
    | kueue.ClusterQueue
    | kueue.Cohort
    | kueue.LocalQueue
    | kueue.AdmissionCheck
    | kueue.WorkloadPriorityClass
    | kueue.Configuration
    | kueue.ProvisioningRequestConfig
    | check_parameters.Budget
    | check_parameters.WebhookCheckConfig
    | kueue.MultiKueueCluster
    | kueue.MultiKueueConfig
    | kueue.Topology
    | check_parameters.CellLadder
    | Namespace
    | LimitRange
    | node_v1.RuntimeClass
    | custom.CustomResourceDefinition
    | JobKind
    | custom.CustomObject
)

KINDS: dict[str, type[ConfigObject]] = {
    "Namespace": Namespace,
    "Configuration": kueue.Configuration,
    "LimitRange": LimitRange,
    "RuntimeClass": node_v1.RuntimeClass,
    "ResourceFlavor": kueue.ResourceFlavor,
    "WorkloadPriorityClass": kueue.WorkloadPriorityClass,
    "ProvisioningRequestConfig": kueue.ProvisioningRequestConfig,
    "Budget": check_parameters.Budget,
    "WebhookCheckConfig": check_parameters.WebhookCheckConfig,
    "MultiKueueCluster": kueue.MultiKueueCluster,
    "MultiKueueConfig": kueue.MultiKueueConfig,
    "Topology": kueue.Topology,
    "CellLadder": check_parameters.CellLadder,
    "CustomResourceDefinition": custom.CustomResourceDefinition,
    "JobKind": JobKind,
    "AdmissionCheck": kueue.AdmissionCheck,
    "Cohort": kueue.Cohort,
    "ClusterQueue": kueue.ClusterQueue,
    "LocalQueue": kueue.LocalQueue,
}
"""In the order in which a set of manifests is best applied: what is referred to comes first.

Teams' own kinds come behind their definitions (`order`).
"""

DEFINITION = "CustomResourceDefinition"


def order(kind: str) -> float:
    """Return a kind's place in the order of `KINDS`."""
    kinds = list(KINDS)
    return kinds.index(kind) if kind in KINDS else kinds.index(DEFINITION) + 0.5


NAMESPACED = frozenset({"LimitRange", "LocalQueue"})

_API_VERSION = {
    "Namespace": "v1",
    "LimitRange": "v1",
    "RuntimeClass": node_v1.API_VERSION,
    "Configuration": sluice_v1.API_VERSION,
    "Budget": sluice_v1.API_VERSION,
    "WebhookCheckConfig": sluice_v1.API_VERSION,
    "CellLadder": sluice_v1.API_VERSION,
    "JobKind": sluice_v1.API_VERSION,
    "CustomResourceDefinition": custom.API_VERSION,
}


def struct_of(kind: str) -> type[ConfigObject]:
    """Return what objects of a kind decode to; all of teams' own kinds to the same."""
    return KINDS.get(kind, custom.CustomObject)


def definition_of(definitions: Iterable[ConfigObject], kind: str) -> custom.CustomResourceDefinition | None:
    """Return the one of *definitions* that registers *kind*."""
    for found in definitions:
        if isinstance(found, custom.CustomResourceDefinition) and found.spec.names.kind == kind:
            return found
    return None


def api_version(kind: str) -> str:
    """Return the apiVersion of a configuration kind."""
    return _API_VERSION.get(kind, kueue.API_VERSION)


def object_key(kind: str, namespace: str, name: str) -> str:
    """Return the key within a kind: `namespace/name`, or the name of a cluster-wide object."""
    return f"{namespace}/{name}" if kind in NAMESPACED else name


def timestamp(at: Micros) -> str:
    """Return *at* as Kubernetes writes times, to the second."""
    return f"{rfc3339(at)[:19]}Z"


def manifest_of(kind: str, whole: ConfigObject) -> dict[str, Any]:
    """Return an object as plain data that says what it is: `apiVersion`, `kind`, then the rest."""
    if isinstance(whole, custom.CustomObject):
        plain: dict[str, Any] = msgspec.to_builtins(whole)
        return plain
    named = {"apiVersion": api_version(kind), "kind": kind}
    return {**named, **msgspec.to_builtins(whole), **named}


@dataclass(frozen=True, slots=True)
class Stored:
    """An object and the log sequence of its last change, its resourceVersion."""

    object: ConfigObject
    seq: int

    @property
    def terminating(self) -> bool:
        return self.object.metadata.deletion_timestamp is not None


Row = tuple[str, int, msgspec.Raw]
"""An object in a snapshot: kind, sequence of its last change, and its manifest as MessagePack."""


@dataclass(slots=True)
class Objects:
    """All configuration objects, by kind and key, in order of creation."""

    by_kind: dict[str, dict[str, Stored]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    terminating: dict[tuple[str, str], int] = field(default_factory=dict)
    """(kind, key) of those that wait for their users to go -> sequence of what last let go of them."""

    def apply(self, event: Event, seq: int) -> None:
        """Fold one event; events of other writers change nothing."""
        match event:
            case ObjectApplied(kind=kind):
                if kind not in self.by_kind:
                    return
                stored = Stored(msgspec.json.decode(event.object, type=struct_of(kind)), seq)
                self._registered(stored.object)
                key = object_key(kind, event.namespace, event.name)
                before = self.by_kind[kind].get(key)
                self.by_kind[kind][key] = stored
                self._no_longer_named(before, stored, seq)
                if stored.terminating:
                    self.terminating[kind, key] = seq
            case ObjectDeleted(kind=kind):
                key = object_key(kind, event.namespace, event.name)
                before = self.by_kind.get(kind, {}).pop(key, None)
                self.terminating.pop((kind, key), None)
                self._no_longer_named(before, None, seq)
                if before is not None and isinstance(before.object, custom.CustomResourceDefinition):
                    self.by_kind.pop(before.object.spec.names.kind, None)
                elif before is not None and isinstance(before.object, custom.CustomObject):
                    definition = self.definition_of(kind)
                    if definition is not None:
                        self.let_go(DEFINITION, definition.metadata.name, seq)

    def _registered(self, whole: ConfigObject) -> None:
        if isinstance(whole, custom.CustomResourceDefinition):
            self.by_kind.setdefault(whole.spec.names.kind, {})

    def definition_of(self, kind: str) -> custom.CustomResourceDefinition | None:
        """Return the definition that registers a team's own kind."""
        return definition_of((stored.object for stored in self.by_kind[DEFINITION].values()), kind)

    def _no_longer_named(self, before: Stored | None, after: Stored | None, seq: int) -> None:
        """Note which terminating objects a changed or deleted queue or check has let go of."""
        if not self.terminating or before is None or isinstance(before.object, kueue.LocalQueue):
            return
        named = references(after.object) if after is not None else ()
        for kind, name in references(before.object):
            if (kind, name) not in named:
                self.let_go(kind, name, seq)

    def let_go(self, kind: str, key: str, seq: int) -> None:
        """Note that what happened at *seq* freed the object of a user, maybe its last."""
        if (kind, key) in self.terminating:
            self.terminating[kind, key] = seq

    def rows(self) -> list[Row]:
        """Return all objects for a snapshot; `of_rows` reads them."""
        return [
            (kind, stored.seq, msgspec.Raw(msgspec.msgpack.encode(manifest_of(kind, stored.object))))
            for kind, found in self.by_kind.items()
            for stored in found.values()
        ]

    @classmethod
    def of_rows(cls, rows: Iterable[Row], terminating: Iterable[tuple[str, str, int]]) -> Self:
        """Return the objects of a snapshot; *terminating*: kind, key, and what last let go of it.

        Raises:
            msgspec.DecodeError, LookupError: they are of another version, or damaged.
        """
        objects = cls()
        for kind, changed, raw in rows:
            whole = msgspec.msgpack.decode(raw, type=struct_of(kind))
            key = object_key(kind, whole.metadata.namespace, whole.metadata.name)
            objects._registered(whole)
            objects.by_kind[kind][key] = Stored(whole, changed)
        objects.terminating = {(kind, key): freed for kind, key, freed in terminating}
        return objects

    def get(self, kind: str, key: str) -> Stored | None:
        return self.by_kind.get(kind, {}).get(key)

    def all(self, kind: str) -> Iterator[Stored]:
        return iter(self.by_kind.get(kind, {}).values())


class Usage(Protocol):
    """What a plan must know beyond configuration."""

    def reserving(self, cluster_queue: str) -> int:
        """Return how many workloads hold quota of the queue."""

    def unadmitted(self, cluster_queue: str) -> int:
        """Return how many of these are not admitted yet."""

    def waiting(self, local_queue: str) -> int:
        """Return how many workloads wait in the local queue `namespace/name`."""

    def holding(self, local_queue: str) -> tuple[int, int]:
        """Return how many workloads of the local queue are admitted, and how many have quota only."""

    def of_priority_class(self, name: str) -> int:
        """Return how many workloads that are not over name the WorkloadPriorityClass."""

    def unfinished_jobs(self, namespace: str) -> int:
        """Return how many jobs of the namespace are not over."""

    def unfinished_of_kind(self, kind: str) -> int:
        """Return how many jobs of the kind are not over."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The time of a step and the last sequence folded before it: what new objects are stamped with."""

    at: Micros
    upto: int


class Draft:
    """A request being planned: the objects with what the request has changed so far.

    `events` are those to commit, in order.
    """

    def __init__(self, objects: Objects, clock: Clock) -> None:
        self._objects, self._clock = objects, clock
        self._changed: dict[tuple[str, str], ConfigObject | None] = {}
        self.events: list[Event] = []

    def get(self, kind: str, key: str) -> ConfigObject | None:
        """Return the object as it would be after the events planned so far."""
        if (kind, key) in self._changed:
            return self._changed[kind, key]
        stored = self._objects.get(kind, key)
        return None if stored is None else stored.object

    def all(self, kind: str) -> Iterator[ConfigObject]:
        """Yield all objects of a kind as they would be."""
        here = self._objects.by_kind.get(kind, {})
        for key, stored in here.items():
            changed = self._changed.get((kind, key), stored.object)
            if changed is not None:
                yield changed
        for (changed_kind, key), changed in self._changed.items():
            if changed_kind == kind and changed is not None and key not in here:
                yield changed

    def is_current(self, kind: str, desired: ConfigObject, version: str) -> bool:
        """Tell whether the object has not been changed since it was read at resourceVersion *version*.

        One that does not exist has not, so that what was exported elsewhere can be applied here.
        """
        metadata = desired.metadata
        stored = self._objects.get(kind, object_key(kind, metadata.namespace, metadata.name))
        return stored is None or not version.isdigit() or int(version) >= stored.seq

    def store(self, kind: str, desired: ConfigObject, *, spec_changed: bool) -> ConfigObject:
        """Plan ObjectApplied for *desired*, with the metadata that only the server sets; return it whole."""
        key = object_key(kind, desired.metadata.namespace, desired.metadata.name)
        before = self.get(kind, key)
        metadata = self._stamp(desired.metadata, before, spec_changed=spec_changed)
        whole = msgspec.structs.replace(desired, metadata=metadata)
        return self._put(kind, whole, created=before is None)

    def _put(self, kind: str, whole: ConfigObject, *, created: bool = False) -> ConfigObject:
        metadata = whole.metadata
        self._changed[kind, object_key(kind, metadata.namespace, metadata.name)] = whole
        self.events.append(
            ObjectApplied(
                cause=0,
                kind=kind,
                name=metadata.name,
                namespace=metadata.namespace,
                object=msgspec.Raw(msgspec.json.encode(manifest_of(kind, whole))),
                created=created,
            )
        )
        return whole

    def _stamp(self, wanted: ObjectMeta, before: ConfigObject | None, *, spec_changed: bool) -> ObjectMeta:
        if before is None:
            return msgspec.structs.replace(
                wanted,
                uid=uid(self._clock.upto, _CONFIG_UIDS + len(self.events)),
                generation=1,
                creation_timestamp=timestamp(self._clock.at),
                deletion_timestamp=None,
            )
        old = before.metadata
        return msgspec.structs.replace(
            wanted,
            uid=old.uid,
            generation=old.generation + (1 if spec_changed else 0),
            creation_timestamp=old.creation_timestamp,
            # Applying a terminating object changes it, but does not bring it back.
            deletion_timestamp=old.deletion_timestamp,
            finalizers=old.finalizers if old.deletion_timestamp else wanted.finalizers,
        )

    def terminate(self, kind: str, target: ConfigObject) -> ConfigObject:
        """Plan that *target* goes when its last user has gone."""
        metadata = msgspec.structs.replace(
            target.metadata,
            deletion_timestamp=timestamp(self._clock.at),
            finalizers=[*[f for f in target.metadata.finalizers if f != IN_USE], IN_USE],
        )
        return self._put(kind, msgspec.structs.replace(target, metadata=metadata))

    def remove(self, kind: str, target: ConfigObject, *, cause: int = 0) -> None:
        """Plan that *target* goes at once; *cause* is the sequence of what let it go, 0 for a request."""
        metadata = target.metadata
        self._changed[kind, object_key(kind, metadata.namespace, metadata.name)] = None
        self.events.append(
            ObjectDeleted(cause=cause, kind=kind, name=metadata.name, namespace=metadata.namespace)
        )


def references(whole: ConfigObject) -> tuple[tuple[str, str], ...]:
    """Return (kind, name) of the objects that a queue or a check names, each once."""
    if isinstance(whole, kueue.LocalQueue):
        return (("ClusterQueue", whole.spec.cluster_queue),)
    if isinstance(whole, kueue.AdmissionCheck):
        parameters = whole.spec.parameters
        return () if parameters is None else ((parameters.kind, parameters.name),)
    if not isinstance(whole, kueue.ClusterQueue):
        return ()
    spec = whole.spec
    found = {
        ("ResourceFlavor", quota.name): None for group in spec.resource_groups for quota in group.flavors
    }
    if spec.admission_checks_strategy is not None:
        found |= {
            ("AdmissionCheck", rule.name): None for rule in spec.admission_checks_strategy.admission_checks
        }
    return tuple(found)


def cohort_cycle(draft: Draft, name: str, parent: str) -> tuple[str, ...]:
    """Return the cycle that *parent* above cohort *name* would close (SC3), both ends included; else ()."""
    path = [name]
    above = parent
    while above:
        path.append(above)
        if above == name:
            return tuple(path)
        if above in path[:-1]:
            return ()
        found = draft.get("Cohort", above)
        above = found.spec.parent_name if isinstance(found, kueue.Cohort) else ""
    return ()


def users(draft: Draft, usage: Usage, kind: str, name: str) -> tuple[str, ...]:
    """Return what keeps an object in use, in people's words; () when it may go."""
    if kind == "ClusterQueue":
        count = usage.reserving(name)
        return (f"{count} workload{'' if count == 1 else 's'} holding its quota",) if count else ()
    if kind in ("ResourceFlavor", "AdmissionCheck"):
        return tuple(
            f'ClusterQueue "{queue.metadata.name}"'
            for queue in draft.all("ClusterQueue")
            if (kind, name) in references(queue)
        )
    if kind == DEFINITION:
        found = draft.get(kind, name)
        registered = found.spec.names.kind if isinstance(found, custom.CustomResourceDefinition) else ""
        count = sum(1 for _ in draft.all(registered)) if registered else 0
        return (f"{count} {registered} object{'' if count == 1 else 's'}",) if count else ()
    if kind not in KINDS:
        return tuple(
            f'AdmissionCheck "{check.metadata.name}"'
            for check in draft.all("AdmissionCheck")
            if (kind, name) in references(check)
        )
    return ()


def contents(draft: Draft, usage: Usage, namespace: str) -> tuple[str, ...]:
    """Return what still lives in a namespace, in people's words."""
    queues = sum(1 for queue in draft.all("LocalQueue") if queue.metadata.namespace == namespace)
    jobs = usage.unfinished_jobs(namespace)
    return tuple(
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in ((queues, "local queue"), (jobs, "unfinished job"))
        if count
    )


def plan_finalize(objects: Objects, usage: Usage, clock: Clock) -> Sequence[Event]:
    """Return ObjectDeleted for every terminating object whose last user has gone."""
    if not objects.terminating:
        return ()
    draft = Draft(objects, clock)
    for (kind, key), cause in objects.terminating.items():
        target = draft.get(kind, key)
        if target is not None and not users(draft, usage, kind, target.metadata.name):
            draft.remove(kind, target, cause=cause)
    return draft.events
