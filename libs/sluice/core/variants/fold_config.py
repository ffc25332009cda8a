"""Fold of configuration into the variant-controller: queues, where they lead, and feature gates."""

from collections.abc import Callable
from typing import Any

import msgspec

from sluice.api import kueue
from sluice.api.errors import UNREADABLE
from sluice.events.base import Event, Micros
from sluice.events.config import ObjectApplied, ObjectDeleted

from .state import State


def _applied(state: State, event: ObjectApplied, seq: int, _at: Micros) -> None:
    try:
        match event.kind:
            case "ClusterQueue":
                spec = msgspec.json.decode(event.object, type=kueue.ClusterQueue).spec
                state.cluster_queues[event.name] = spec
                _queue_changed(state, event.name, seq)
            case "LocalQueue":
                local = msgspec.json.decode(event.object, type=kueue.LocalQueue)
                key = f"{event.namespace}/{event.name}"
                state.local_queues[key] = local.spec.cluster_queue
                _members_changed(state, key, seq)
            case "Configuration":
                state.config = msgspec.json.decode(event.object, type=kueue.Configuration).spec
                _config_changed(state, seq)
    except UNREADABLE:
        # The configuration's writer has validated it; whatever else stands there means nothing here.
        return


def _object_deleted(state: State, event: ObjectDeleted, seq: int, _at: Micros) -> None:
    match event.kind:
        case "ClusterQueue":
            if state.cluster_queues.pop(event.name, None) is not None:
                _queue_changed(state, event.name, seq)
        case "LocalQueue":
            key = f"{event.namespace}/{event.name}"
            state.local_queues.pop(key, None)
            _members_changed(state, key, seq)
        case "Configuration":
            state.config = kueue.ConfigurationSpec()
            _config_changed(state, seq)


def _config_changed(state: State, seq: int) -> None:
    for name in sorted(state.cluster_queues):
        _queue_changed(state, name, seq)


def _queue_changed(state: State, name: str, seq: int) -> None:
    known, before = name in state.policies, state.policies.get(name)
    state.compile(name)
    if known == (name in state.policies) and before is None and state.policies.get(name) is None:
        return
    for local in sorted(state.local_queues):
        if state.local_queues[local] == name:
            _members_changed(state, local, seq)


def _members_changed(state: State, local: str, seq: int) -> None:
    for key in sorted(state.by_queue.get(local, ())):
        state.touch(state.families[key], seq)


CONFIG_HANDLERS: dict[type[Event], Callable[[State, Any, int, Micros], None]] = {
    ObjectApplied: _applied,
    ObjectDeleted: _object_deleted,
}
