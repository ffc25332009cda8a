"""Base of every event, and the small value types that events share."""

from collections.abc import Sequence
from typing import NewType

import msgspec

from sluice.api.core_v1 import NodeSelectorTerm, Toleration
from sluice.api.errors import FieldError

__all__ = ["Event", "FieldError", "JobKey", "Micros", "PodSet", "PodSetAssignment", "Value", "WorkloadKey"]

Micros = int
"""Time: microseconds since the epoch (law 5: time is data)."""

JobKey = NewType("JobKey", str)
"""`namespace/name` of a job."""

WorkloadKey = NewType("WorkloadKey", str)
"""`namespace/name` of a workload."""


class Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of the immutable values inside events.

    Values and events are made from the inside out and never change, so no cycle can go through one: the
    garbage collector need not walk the millions of them that a state holds.
    """


class Event(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    tag_field="type",
    gc=False,
):
    """A fact, past tense. Fields may be added with defaults; a change of meaning gets a new tag.

    `cause` is the log sequence of the message that brought the event about; for what time brings about, of
    the last one that concerned its object. 0 only in configuration, which people change.
    """

    cause: int


class PodSet(Value, frozen=True, kw_only=True):
    """Pods that are alike. `requests` are per pod: cpu in milli-units, all else in whole units (G3)."""

    name: str
    count: int
    requests: dict[str, int] = {}
    min_count: int | None = None
    node_selector: dict[str, str] = {}
    node_affinity: Sequence[NodeSelectorTerm] = ()
    """Required terms, any of which must match; () means no constraint."""
    tolerations: Sequence[Toleration] = ()
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    group: str = ""
    """Pod sets of one group get the same flavors (topologyRequest.podSetGroupName: leader and workers)."""


class PodSetAssignment(Value, frozen=True, kw_only=True):
    """Flavor and total usage (all `count` pods, base units) per resource.

    What has usage and no flavor is not declared by the queue, and charged to nobody (`IgnoreUndeclared`).
    """

    name: str
    count: int
    flavors: dict[str, str]
    usage: dict[str, int]
