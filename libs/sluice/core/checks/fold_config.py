"""Fold of configuration into the admission-check service's state: checks, their parameters, queues."""

from collections.abc import Iterable

import msgspec

from sluice.api import kueue
from sluice.api.errors import UNREADABLE
from sluice.core.workload.admission_checks import check_names
from sluice.events.base import Micros, WorkloadKey
from sluice.events.config import ObjectApplied, ObjectDeleted

from .state import Check, State
from .timeouts import answer_timeout

_NOT_PARAMETERS = frozenset(
    {"Namespace", "WorkloadPriorityClass", "Cohort", "LocalQueue", "CustomResourceDefinition"}
    | {"LimitRange", "RuntimeClass", "JobKind"}
)


def applied(state: State, event: ObjectApplied, seq: int, _at: Micros) -> None:
    try:
        match event.kind:
            case "ClusterQueue":
                spec = msgspec.json.decode(event.object, type=kueue.ClusterQueue).spec
                state.cluster_queues[event.name] = spec
                look_at(state, state.by_queue.get(event.name, ()), seq)
            case "ResourceFlavor":
                flavor = msgspec.json.decode(event.object, type=kueue.ResourceFlavor)
                state.flavors[event.name] = flavor.spec
            case "AdmissionCheck":
                _check_applied(state, event, seq)
            case "Configuration":
                state.config = msgspec.json.decode(event.object, type=kueue.Configuration).spec
                state.watched.update(dict.fromkeys(state.checks))
            case kind if kind not in _NOT_PARAMETERS:
                found = msgspec.json.decode(event.object, type=_Specified)
                state.parameters[kind, event.name] = (seq, found.spec)
                _parameters_changed(state, kind, event.name, seq)
    except UNREADABLE:
        # The configuration's writer has validated it; whatever else stands there means nothing here.
        return


class _Specified(msgspec.Struct, frozen=True):
    spec: msgspec.Raw = msgspec.Raw(b"{}")


def _check_applied(state: State, event: ObjectApplied, seq: int) -> None:
    found = msgspec.json.decode(event.object, type=kueue.AdmissionCheck)
    before = state.checks.get(event.name)
    version = before.version if before is not None and before.spec == found.spec else seq
    status = before.status if before is not None else None
    state.checks[event.name] = Check(found.spec, version, status, answer_timeout(found))
    state.watched[event.name] = None
    if version == seq:
        look_at(state, _users(state, event.name), seq)


def deleted(state: State, event: ObjectDeleted, seq: int, _at: Micros) -> None:
    match event.kind:
        case "ClusterQueue":
            if state.cluster_queues.pop(event.name, None) is not None:
                look_at(state, state.by_queue.get(event.name, ()), seq)
        case "ResourceFlavor":
            state.flavors.pop(event.name, None)
        case "AdmissionCheck":
            if state.checks.pop(event.name, None) is not None:
                state.watched.pop(event.name, None)
                look_at(state, _users(state, event.name), seq)
        case "Configuration":
            state.config = kueue.ConfigurationSpec()
            state.watched.update(dict.fromkeys(state.checks))
        case kind if state.parameters.pop((kind, event.name), None) is not None:
            _parameters_changed(state, kind, event.name, seq)


def _users(state: State, check: str) -> list[WorkloadKey]:
    """Return the workloads with quota in queues that name the check, or that have it requested."""
    return [
        key
        for queue in sorted(state.by_queue)
        if (spec := state.cluster_queues.get(queue)) is not None and check in check_names(spec)
        for key in state.by_queue[queue]
    ]


def _parameters_changed(state: State, kind: str, name: str, seq: int) -> None:
    for check in sorted(state.checks):
        if state.checks[check].parameters == (kind, name):
            look_at(state, _users(state, check), seq)


def look_at(state: State, keys: Iterable[WorkloadKey], seq: int) -> None:
    for key in keys:
        state.touch(state.workloads[key], seq)
