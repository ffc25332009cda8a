"""How objects are called and shown."""

import pytest

from sluice.cli.cell.selectors import parse_targets
from sluice.cli.kit.columns import Usage, dig, pending_reason, position, usage_cells
from sluice.cli.kit.errors import CliError
from sluice.cli.kit.resources import RESOURCES, resource_named
from sluice.replay.source.suggest import did_you_mean


def workload(*conditions, active=True, **status):
    """Return a workload with conditions given as (type, status, reason)."""
    listed = [{"type": t, "status": s, "reason": r} for t, s, r in conditions]
    return {
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {"active": active},
        "status": {"conditions": listed, **status},
    }


def test_position_is_for_those_who_wait():
    """A place in the queue is shown for pending workloads, and for nobody else."""
    waiting = workload(("QuotaReserved", "False", "WaitingForQuota"), queuePosition=3, phase="Pending")
    running = workload(("QuotaReserved", "True", ""), queuePosition=3, phase="Admitted")

    assert (position(waiting), position(running)) == ("3", "")
    assert (pending_reason(waiting), pending_reason(running)) == ("WaitingForQuota", "")


def test_names_are_unambiguous():
    """No word stands for two kinds, and every kind can be called by kind, plural and short name."""
    for resource in RESOURCES:
        for word in (resource.kind, resource.plural, *resource.short):
            assert resource_named(word) is resource


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("cq", "ClusterQueue"),
        ("lq", "LocalQueue"),
        ("wl", "Workload"),
        ("rf", "ResourceFlavor"),
        ("flavors", "ResourceFlavor"),
        ("clusterqueues.kueue.x-k8s.io", "ClusterQueue"),
        ("JOBS", "Job"),
    ],
)
def test_kubectl_habits_work(word, kind):
    """Short names, plurals, full names, capitals."""
    assert resource_named(word).kind == kind


def test_a_near_miss_is_named():
    """A typing error gets the word that was meant."""
    with pytest.raises(CliError, match='Did you mean "clusterqueue"'):
        resource_named("clusterqeue")
    assert did_you_mean("zzzz", ["team-a"]) == ""


def test_near_names_are_found_among_very_many():
    """Of a long log's jobs most are not even looked at, and who was meant is found all the same."""
    many = [f"team-{n % 7}/sweep-{n}" for n in range(20_000)]

    assert did_you_mean("team-3/trian", [*many, "team-3/train"]) == ' Did you mean "team-3/train"?'
    assert did_you_mean("ab", many) == ""


def test_targets_as_kubectl_reads_them():
    """TYPE NAME..., TYPE/NAME..., TYPE,TYPE."""

    def kinds(*arguments):
        return [(resource.kind, names) for resource, names in parse_targets(arguments)]

    assert kinds("job", "a", "b") == [("Job", ["a", "b"])]
    assert kinds("job/a", "cq/b", "job/c") == [("Job", ["a", "c"]), ("ClusterQueue", ["b"])]
    assert kinds("cq,lq") == [("ClusterQueue", []), ("LocalQueue", [])]
    for wrong in ((), ("job/a", "b"), ("cq,lq", "name"), ("job/",)):
        with pytest.raises(CliError):
            parse_targets(wrong)


def test_usage_follows_the_manifest():
    """Use and quota per flavor and resource, in the manifest's order, in base units."""
    queue = {
        "spec": {
            "resourceGroups": [
                {
                    "flavors": [
                        {"name": "b", "resources": [{"name": "cpu", "nominalQuota": "1500m"}]},
                        {"name": "a", "resources": [{"name": "memory", "nominalQuota": "1Gi"}]},
                    ]
                }
            ]
        },
        "status": {
            "flavorsReservation": [
                {"name": "b", "resources": [{"name": "cpu", "total": "2", "borrowed": "500m"}]}
            ]
        },
    }

    assert usage_cells(queue) == [Usage("b", "cpu", 2000, 500, 1500), Usage("a", "memory", 0, 0, 2**30)]


def test_what_is_used_of_flavors_that_were_taken_out_stands_at_the_end():
    """What runs there has it still, without any quota; of what nobody has nothing is said."""
    groups = [{"flavors": [{"name": "a", "resources": [{"name": "cpu", "nominalQuota": "2"}]}]}]
    left = [
        {"name": flavor, "resources": [{"name": "cpu", "total": total, "borrowed": total}]}
        for flavor, total in (("gone", "3"), ("a", "0"), ("unused", "0"))
    ]
    queue = {"spec": {"resourceGroups": groups}, "status": {"flavorsReservation": left}}

    assert usage_cells(queue) == [Usage("a", "cpu", 0, 0, 2000), Usage("gone", "cpu", 3000, 3000, 0)]


def test_dig_stops_at_what_is_missing():
    """Absent, null and mistyped parts give the default."""
    assert dig({"a": {"b": 1}}, "a", "b") == 1
    assert dig({"a": None}, "a", "b", default="x") == "x"
    assert dig({"a": [1]}, "a", "b", default="x") == "x"
