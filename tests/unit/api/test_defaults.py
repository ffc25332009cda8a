"""Defaults are Kueue's, fill in what is absent, and change nothing the second time."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sluice.api import batch_v1, kueue
from sluice.api.core_v1 import Namespace
from sluice.api.decode import decode_json, decode_object
from sluice.api.defaults import default
from sluice.api.mapped import MappedJob
from sluice.api.meta import Manifest, ObjectMeta
from sluice.api.scheme import KINDS, Kind

NAMES = st.sampled_from(["a", "b-1", "c.d"])
MODES = ["", "TryPreferredFlavors", "RetainFirstAdmission"]


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


@st.composite
def cluster_queues(draw: st.DrawFn) -> kueue.ClusterQueue:
    """Any mix of given and absent parts."""
    word = st.sampled_from(["", "TryNextFlavor", "MayStopSearch"])
    spec: dict[str, Any] = {
        "cohort_name": draw(st.sampled_from(["", "c"])),
        "queueing_strategy": draw(st.sampled_from(["", "StrictFIFO", "BestEffortFIFO"])),
        "stop_policy": draw(optional(st.sampled_from(["None", "Hold", ""]))),
        "fair_sharing": draw(optional(st.builds(kueue.FairSharing, weight=optional(st.integers(0, 5))))),
        "flavor_fungibility": draw(
            optional(st.builds(kueue.FlavorFungibility, when_can_borrow=word, when_can_preempt=word))
        ),
        "preemption": draw(
            optional(
                st.builds(
                    kueue.ClusterQueuePreemption,
                    reclaim_within_cohort=st.sampled_from(["", "Never", "Any"]),
                    borrow_within_cohort=optional(st.builds(kueue.BorrowWithinCohort)),
                )
            )
        ),
        "concurrent_admission_policy": draw(
            optional(
                st.builds(
                    kueue.ConcurrentAdmissionPolicy,
                    migration=st.builds(kueue.ConcurrentAdmissionMigration, mode=st.sampled_from(MODES)),
                )
            )
        ),
    }
    return kueue.ClusterQueue(metadata=ObjectMeta(name=draw(NAMES)), spec=kueue.ClusterQueueSpec(**spec))


@given(cluster_queues())
def test_defaulting_twice_is_defaulting_once(queue: kueue.ClusterQueue) -> None:
    """Defaults leave alone what they have filled in."""
    once = default(queue)

    assert default(once) == once


@given(cluster_queues())
def test_what_is_encoded_decodes_to_itself(queue: kueue.ClusterQueue) -> None:
    """A manifest survives the log, defaulted or not."""
    for manifest in (queue, default(queue)):
        data = msgspec.json.encode(manifest)
        assert decode_json(data) == manifest
        assert decode_object(msgspec.json.decode(data)) == manifest


@given(st.sampled_from(KINDS))
def test_every_kind_has_defaults_and_round_trips(kind: Kind) -> None:
    """No kind is forgotten: the empty manifest of each defaults, encodes and decodes."""
    named = {"api_version": kind.api_version, "kind": kind.kind} if kind.type is MappedJob else {}
    manifest: Manifest = default(kind.type(**named, metadata=ObjectMeta(name="a")))

    assert default(manifest) == manifest
    assert decode_json(msgspec.json.encode(manifest)) == manifest
    assert manifest.metadata.namespace == ("default" if kind.namespaced else "")  # type: ignore[attr-defined]


def test_cluster_queue_defaults_are_kueues() -> None:
    spec = default(kueue.ClusterQueue()).spec

    assert spec.queueing_strategy == "BestEffortFIFO"
    assert spec.flavor_fungibility == kueue.FlavorFungibility(
        when_can_borrow="MayStopSearch", when_can_preempt="TryNextFlavor"
    )
    assert spec.preemption == kueue.ClusterQueuePreemption(
        within_cluster_queue="Never",
        reclaim_within_cohort="Never",
        borrow_within_cohort=kueue.BorrowWithinCohort(policy="Never"),
    )
    assert spec.stop_policy == "None"
    assert spec.namespace_selector is None, "an absent selector matches nothing and stays absent"


def test_partial_admission_off_drops_min_counts() -> None:
    """With the gate off, a minCount has no meaning left."""
    part = kueue.WorkloadPodSet(name="main", count=4, min_count=2)
    workload = kueue.Workload(spec=kueue.WorkloadSpec(pod_sets=[part]))

    assert default(workload).spec.pod_sets[0].min_count == 2
    assert default(workload, {"PartialAdmission": False}).spec.pod_sets[0].min_count is None


def test_job_defaults_are_kubernetes() -> None:
    """Neither count given means one pod that must succeed; parallelism alone is a work queue."""
    single = default(batch_v1.Job()).spec
    queue = default(batch_v1.Job(spec=batch_v1.JobSpec(parallelism=3))).spec

    assert (single.parallelism, single.completions) == (1, 1)
    assert (queue.parallelism, queue.completions) == (3, None)


def test_namespace_carries_its_name_as_a_label() -> None:
    """Selectors name namespaces by that label."""
    namespace = default(Namespace(metadata=ObjectMeta(name="team-a")))

    assert namespace.metadata.labels == {"kubernetes.io/metadata.name": "team-a"}
