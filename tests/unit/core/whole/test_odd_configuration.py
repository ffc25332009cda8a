"""Configuration that should not be in the log, as the api service refuses it."""

from typing import Any

import msgspec
import pytest

from sluice.core.checks.decider import AdmissionChecks
from sluice.core.deciders import DECIDERS
from sluice.core.slices.decider import SliceAggregator
from sluice.core.variants.decider import VariantController
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.log.decider import Decider

KINDS = (
    "AdmissionCheck",
    "ClusterQueue",
    "Cohort",
    "Configuration",
    "LimitRange",
    "LocalQueue",
    "Namespace",
    "ResourceFlavor",
    "RuntimeClass",
    "WorkloadPriorityClass",
)
TOLERANT = (SliceAggregator, VariantController, AdmissionChecks)
"""Not the scheduler: it stops at such an object."""

BROKEN = (b'{"spec": 5, "metadata": 5}', b'{"kind": {}, "metadata": [], "spec": []}', b"[]")


def state_after(kind: type[Decider[Any]], event: ObjectApplied | ObjectDeleted) -> bytes:
    """What a decider has stored after one event, from which it decides nothing."""
    decider = kind()
    state = decider.initial()
    decider.apply(state, event, 1, 1)
    assert not decider.decide(state, 1)
    return decider.dump(state)


UNKNOWN = ObjectDeleted(cause=0, kind="Unknown", name="x", namespace="ns")


@pytest.mark.parametrize("decider", TOLERANT, ids=lambda decider: decider.writer)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("raw", BROKEN)
def test_an_object_that_cannot_be_read_means_nothing(
    decider: type[Decider[Any]], kind: str, raw: bytes
) -> None:
    """The fold goes on as if it were not there."""
    broken = ObjectApplied(cause=0, kind=kind, name="x", namespace="ns", object=msgspec.Raw(raw))

    assert state_after(decider, broken) == state_after(decider, UNKNOWN)


@pytest.mark.parametrize("decider", DECIDERS, ids=lambda decider: decider.writer)
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_never_there_can_be_deleted(decider: type[Decider[Any]], kind: str) -> None:
    """Deletions of what a decider has not heard of change nothing."""
    gone = ObjectDeleted(cause=0, kind=kind, name="x", namespace="ns")

    assert state_after(decider, gone) == state_after(decider, UNKNOWN)
