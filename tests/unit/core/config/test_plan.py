"""What applying and deleting configuration leads to."""

from dataclasses import dataclass, field

import pytest

from sluice.core.config.objects import IN_USE, Clock, Draft, Objects, plan_finalize
from sluice.core.config.plan import plan_apply, plan_delete
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.protocol.query import Reference

KUEUE = "kueue.x-k8s.io/v1beta2"


@dataclass
class Usage:
    """Who uses what, as the status view would say."""

    reserved: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)
    not_admitted: dict[str, int] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)
    held: dict[str, tuple[int, int]] = field(default_factory=dict)
    named: dict[str, int] = field(default_factory=dict)
    of_kind: dict[str, int] = field(default_factory=dict)

    def reserving(self, cluster_queue):
        return self.reserved.get(cluster_queue, 0)

    def unadmitted(self, cluster_queue):
        return self.not_admitted.get(cluster_queue, 0)

    def waiting(self, local_queue):
        return self.pending.get(local_queue, 0)

    def holding(self, local_queue):
        return self.held.get(local_queue, (0, 0))

    def of_priority_class(self, name):
        return self.named.get(name, 0)

    def unfinished_jobs(self, namespace):
        return self.jobs.get(namespace, 0)

    def unfinished_of_kind(self, kind):
        return self.of_kind.get(kind, 0)


class Cell:
    """Objects as a sequence of requests makes them; every request is one commit."""

    def __init__(self):
        self.objects, self.usage, self.seq = Objects(), Usage(), 0

    def draft(self):
        return Draft(self.objects, Clock(at=1_700_000_000_000_000 + self.seq * 1_000_000, upto=self.seq))

    def commit(self, events):
        self.seq += 1
        for event in events:
            self.objects.apply(event, self.seq)

    def apply(self, *manifests):
        draft = self.draft()
        results = [plan_apply(draft, manifest, "default") for manifest in manifests]
        self.commit(draft.events)
        return results if len(results) > 1 else results[0]

    def delete(self, kind, name):
        draft = self.draft()
        result = plan_delete(draft, self.usage, Reference(kind=kind, name=name), "default")
        self.commit(draft.events)
        return result

    def finalize(self):
        events = plan_finalize(self.objects, self.usage, Clock(at=0, upto=self.seq))
        self.commit(events)
        return events

    def stored(self, kind, key):
        found = self.objects.get(kind, key)
        return None if found is None else found.object


def manifest(kind, name, spec=None, **metadata):
    return {
        "apiVersion": KUEUE,
        "kind": kind,
        "metadata": {"name": name, **metadata},
        **({"spec": spec} if spec else {}),
    }


def queue(name, flavor="spot", cpu=4, **spec):
    resources = [{"name": "cpu", "nominalQuota": cpu}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": resources}]}]
    return manifest("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": groups, **spec})


@pytest.fixture
def cell():
    return Cell()


def causes(result):
    assert result.status is not None
    return [(cause.field, cause.reason) for cause in result.status.details.causes]


# Apply


def test_a_new_object_is_stamped(cell):
    """Uid, generation 1 and the step's time; the event says created."""
    draft = cell.draft()
    result = plan_apply(draft, manifest("ResourceFlavor", "spot"), "default")

    assert result.outcome == "created"
    (event,) = draft.events
    assert isinstance(event, ObjectApplied)
    assert event.created
    assert result.object is not None
    assert result.object["metadata"]["generation"] == 1
    assert result.object["metadata"]["creationTimestamp"] == "2023-11-14T22:13:20Z"


def test_the_same_again_is_unchanged(cell):
    """No event, the same generation, however often."""
    cell.apply(queue("a"))
    draft = cell.draft()

    assert plan_apply(draft, queue("a"), "default").outcome == "unchanged"
    assert draft.events == []


def test_what_get_prints_can_be_applied(cell):
    """Defaults, server-set metadata and status in a manifest change nothing."""
    created = cell.apply(queue("a"))
    again = {**created.object, "status": {"pendingWorkloads": 3}}

    assert cell.apply(again).outcome == "unchanged"


def test_generation_counts_spec_changes(cell):
    """A label is a change but no new generation; quota is both; uid and creation stay."""
    first = cell.apply(queue("a")).object["metadata"]
    labelled = queue("a")
    labelled["metadata"]["labels"] = {"team": "x"}
    second = cell.apply(labelled)
    third = cell.apply(queue("a", cpu=5))

    assert (second.outcome, second.object["metadata"]["generation"]) == ("configured", 1)
    assert third.object["metadata"]["generation"] == 2
    assert third.object["metadata"]["uid"] == first["uid"]
    assert third.object["metadata"]["creationTimestamp"] == first["creationTimestamp"]
    assert "labels" not in third.object["metadata"], "what a manifest leaves out is removed"


def test_uids_differ_within_and_between_requests(cell):
    """Two objects of one request, and of two requests, have different uids."""
    results = [*cell.apply(queue("a"), queue("b")), cell.apply(queue("c"))]

    assert len({result.object["metadata"]["uid"] for result in results}) == 3


def test_unknown_fields_are_errors_with_a_path(cell):
    """Every misspelt field is named, with what was probably meant."""
    wrong = queue("a", cohortNmae="x")
    wrong["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalquota"] = 3
    result = cell.apply(wrong)

    assert result.status.reason == "Invalid"
    assert ("spec.cohortNmae", "FieldUnknown") in causes(result)
    assert ("spec.resourceGroups[0].flavors[0].resources[0].nominalquota", "FieldUnknown") in causes(result)
    assert cell.stored("ClusterQueue", "a") is None


def test_a_wrong_object_does_not_hold_up_the_others(cell):
    """Of one request what is valid is applied."""
    bad, good = cell.apply(queue("bad", cpu="lots"), queue("good"))

    assert (bad.outcome, good.outcome) == ("refused", "created")


def test_immutable_fields_are_kept(cell):
    """A LocalQueue's cluster queue cannot be changed."""
    cell.apply(manifest("LocalQueue", "lq", {"clusterQueue": "a"}))
    result = cell.apply(manifest("LocalQueue", "lq", {"clusterQueue": "b"}))

    assert causes(result) == [("spec.clusterQueue", "FieldValueInvalid")]
    assert cell.stored("LocalQueue", "default/lq").spec.cluster_queue == "a"


def test_cohort_cycles_are_refused(cell):
    """The object that would close a cycle is refused with the whole cycle (SC3), also within a request."""
    first, second, third = cell.apply(
        manifest("Cohort", "a", {"parentName": "b"}),
        manifest("Cohort", "b", {"parentName": "c"}),
        manifest("Cohort", "c", {"parentName": "a"}),
    )

    assert (first.outcome, second.outcome) == ("created", "created")
    assert causes(third) == [("spec.parentName", "FieldValueInvalid")]
    assert "c -> a -> b -> c" in third.status.message


def test_a_stale_resource_version_is_a_conflict(cell):
    """Who names a version means that one and no other."""
    cell.apply(queue("a"))
    cell.apply(queue("a", cpu=5))
    stale = queue("a", cpu=6)
    stale["metadata"]["resourceVersion"] = "1"

    assert cell.apply(stale).status.reason == "Conflict"
    stale["metadata"]["resourceVersion"] = "2"
    assert cell.apply(stale).outcome == "configured"


def test_jobs_are_not_configuration(cell):
    """A job is refused with the command that takes it."""
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {}}}

    assert "sluice submit" in cell.apply(job).status.message


def test_a_namespace_comes_with_its_first_queue(cell):
    """Nobody has to make namespaces; a selector can match their name."""
    cell.apply(manifest("LocalQueue", "lq", {"clusterQueue": "a"}, namespace="team"))

    labels = cell.stored("Namespace", "team").metadata.labels
    assert labels == {"kubernetes.io/metadata.name": "team"}


def test_references_to_nothing_are_warned_of(cell):
    """As in Kueue that is no error, but people are told."""
    assert 'no ResourceFlavor "spot"' in cell.apply(queue("a")).warnings[0]
    cell.apply(manifest("ResourceFlavor", "spot"))
    assert cell.apply(queue("a")).warnings == []


# Delete


def test_what_nobody_uses_goes_at_once(cell):
    """Deleted, and then not found."""
    cell.apply(queue("a"))

    assert cell.delete("ClusterQueue", "a").outcome == "deleted"
    assert cell.delete("ClusterQueue", "a").status.reason == "NotFound"


def test_a_queue_with_reservations_terminates(cell):
    """It stays with the finalizer until the last workload has given its quota back."""
    cell.apply(queue("a"))
    cell.usage.reserved["a"] = 1

    assert cell.delete("ClusterQueue", "a").outcome == "terminating"
    kept = cell.stored("ClusterQueue", "a").metadata
    assert kept.deletion_timestamp
    assert kept.finalizers == [IN_USE]
    assert cell.finalize() == []

    cell.usage.reserved["a"] = 0
    cell.objects.let_go("ClusterQueue", "a", 41)
    assert cell.finalize() == [ObjectDeleted(cause=41, kind="ClusterQueue", name="a")]
    assert cell.finalize() == ()


@pytest.mark.parametrize(("waiting", "warned"), [(0, ""), (1, "1 of them is not"), (2, "2 of them are not")])
def test_the_deletion_of_a_queue_warns_of_reservations_that_end(waiting, warned):
    """What is admitted runs on; what only has a reservation loses it, as in Kueue."""
    cell = Cell()
    cell.apply(queue("a"))
    cell.usage.reserved["a"], cell.usage.not_admitted["a"] = 3, waiting
    used, *ending = cell.delete("ClusterQueue", "a").warnings
    assert used == "in use by 3 workloads holding its quota; it goes when they have gone"
    assert [text.startswith(warned) for text in ending] == ([True] if waiting else [])


@pytest.mark.parametrize(
    ("waiting", "warned"), [(0, []), (1, ["1 workload waits"]), (2, ["2 workloads wait"])]
)
def test_the_deletion_of_a_local_queue_warns_of_those_that_wait_in_it(cell, waiting, warned):
    cell.apply(manifest("LocalQueue", "lq", {"clusterQueue": "a"}))
    cell.usage.pending["default/lq"] = waiting
    result = cell.delete("LocalQueue", "lq")
    assert result.outcome == "deleted"
    assert [" ".join(text.split()[:3]) for text in result.warnings] == warned


def test_applying_does_not_bring_back(cell):
    """A terminating object can be edited, and terminates all the same."""
    cell.apply(queue("a"))
    cell.usage.reserved["a"] = 1
    cell.delete("ClusterQueue", "a")
    result = cell.apply(queue("a", cpu=9))

    assert (result.outcome, len(result.warnings)) == ("configured", 2)
    assert cell.stored("ClusterQueue", "a").metadata.deletion_timestamp


def test_a_flavor_waits_for_its_queues(cell):
    """Deleting the last queue that names it takes the flavor along."""
    cell.apply(manifest("ResourceFlavor", "spot"), queue("a"), queue("b"))

    assert cell.delete("ResourceFlavor", "spot").outcome == "terminating"
    cell.delete("ClusterQueue", "a")
    assert cell.finalize() == []
    cell.delete("ClusterQueue", "b")
    let_go = cell.seq
    cell.apply(queue("c", flavor="other"))
    assert [(event.name, event.cause) for event in cell.finalize()] == [("spot", let_go)]


def test_a_namespace_in_use_is_refused(cell):
    """With local queues or unfinished jobs; `default` always."""
    cell.apply(manifest("LocalQueue", "lq", {"clusterQueue": "a"}, namespace="team"))
    cell.usage.jobs["team"] = 2

    refused = cell.delete("Namespace", "team").status
    assert refused.reason == "Conflict"
    assert "1 local queue and 2 unfinished jobs" in refused.message
    cell.apply(manifest("LocalQueue", "lq", {"clusterQueue": "a"}))
    assert cell.delete("Namespace", "default").status.reason == "Forbidden"


def test_a_limit_range_lives_and_dies_with_its_namespace(cell):
    """It makes the namespace if need be, holds nobody up, and goes with it."""
    limits = {"limits": [{"type": "Container", "max": {"cpu": 2}}]}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "team"}}

    assert cell.apply({**body, "spec": limits}).outcome == "created"
    assert cell.stored("LimitRange", "team/l").spec.limits[0].default_request == {"cpu": 2}
    assert cell.apply({**body, "spec": limits}).outcome == "unchanged"
    assert cell.delete("Namespace", "team").outcome == "deleted"
    assert cell.objects.get("LimitRange", "team/l") is None


def test_a_replay_of_the_events_gives_the_same_objects(cell):
    """Everything that counts is in the events."""
    cell.apply(manifest("ResourceFlavor", "spot"), queue("a"))
    draft = cell.draft()
    plan_apply(draft, queue("a", cpu=7), "default")
    plan_apply(draft, manifest("LocalQueue", "lq", {"clusterQueue": "a"}), "default")
    cell.commit(draft.events)
    again = Objects()
    for stored in [s for kind in cell.objects.by_kind.values() for s in kind.values()]:
        assert stored.object.metadata.uid
    for event in draft.events:
        again.apply(event, cell.seq)

    assert again.get("ClusterQueue", "a") == cell.objects.get("ClusterQueue", "a")
    assert again.get("LocalQueue", "default/lq") == cell.objects.get("LocalQueue", "default/lq")


def test_a_local_queue_that_is_deleted_says_what_becomes_of_those_with_quota():
    """What is admitted runs on, a reservation ends; neither comes back before the queue does."""
    cell = Cell()
    cell.apply(manifest("LocalQueue", "lq", {"clusterQueue": "a"}))
    cell.usage.held["default/lq"] = (3, 1)
    runs, reserves = cell.delete("LocalQueue", "lq").warnings
    assert runs.startswith("3 workloads of it run on; once stopped, none gets quota until")
    assert reserves.startswith("1 workload of it has quota and is not admitted: the quota is given up")


def test_a_priority_class_that_is_deleted_says_who_uses_it():
    cell = Cell()
    cell.apply({**manifest("WorkloadPriorityClass", "mid"), "value": 5})
    cell.usage.named["mid"] = 2
    (warning,) = cell.delete("WorkloadPriorityClass", "mid").warnings
    assert warning.startswith(
        "2 workloads use it and keep their priority, but a job that names it is refused"
    )


INEFFECTIVE = [
    ("Topology", {"levels": [{"nodeLabel": "rack"}]}, "spec.levels"),
    ("ResourceFlavor", {"topologyName": "t", "nodeLabels": {"a": "b"}}, "spec.topologyName"),
    (
        "ClusterQueue",
        {"namespaceSelector": {}, "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}},
        "spec.admissionScope",
    ),
    ("LocalQueue", {"clusterQueue": "a", "fairSharing": {"weight": "2"}}, "spec.fairSharing"),
]


@pytest.mark.parametrize(("kind", "spec", "field"), INEFFECTIVE, ids=[kind for kind, _, _ in INEFFECTIVE])
def test_what_has_no_effect_is_accepted_with_a_warning(kind, spec, field):
    """Manifests of Kueue apply as they are, with what kubectl adds; nothing is ignored in silence."""
    metadata = {
        "name": "a",
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
    }
    result = Cell().apply({"apiVersion": KUEUE, "kind": kind, "metadata": metadata, "spec": spec})
    assert result.outcome == "created", result
    assert [text for text in result.warnings if text.startswith(f"{field} ") and "no effect" in text]


@pytest.mark.parametrize(
    ("levels", "field"),
    [
        ([], "spec.levels"),
        ([{}], "spec.levels[0].nodeLabel"),
        ([{"nodeLabel": "a"}, {"nodeLabel": "a"}], "spec.levels[1].nodeLabel"),
        ([{"nodeLabel": str(n)} for n in range(17)], "spec.levels"),
    ],
    ids=["none", "unnamed", "twice", "many"],
)
def test_levels_of_a_topology_are_checked(levels, field):
    manifest = {"apiVersion": KUEUE, "kind": "Topology", "metadata": {"name": "a"}}
    result = Cell().apply({**manifest, "spec": {"levels": levels}})
    assert result.outcome == "refused"
    assert field in str(result.status)


def test_errors_of_shape_and_of_values_come_together(cell):
    """In one answer, each with its field."""
    wrong = queue("Wrong_Name", flavor="spot", cpu=-1)
    wrong["spec"]["queueingStrategie"] = "StrictFIFO"
    assert [field for field, _ in causes(cell.apply(wrong))] == [
        "spec.queueingStrategie",
        "metadata.name",
        "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota",
    ]
