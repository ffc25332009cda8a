"""Configuration through the command line, as a user meets it."""

import pytest

from tests.support.waiting import wait_until

from .conftest import queue_yaml

pytestmark = pytest.mark.nats


def test_apply_says_what_became_of_each_object(run):
    """Created, then unchanged, then configured."""
    first = run("apply", "-f", "-", stdin=queue_yaml("a1")).ok()
    again = run("apply", "-f", "-", stdin=queue_yaml("a1")).ok()
    edited = run("apply", "-f", "-", stdin=queue_yaml("a1", cpu=3)).ok()

    assert first.lines == [
        "resourceflavor.kueue.x-k8s.io/a1-flavor created",
        "clusterqueue.kueue.x-k8s.io/a1 created",
        "localqueue.kueue.x-k8s.io/a1 created",
    ]
    assert {line.split()[-1] for line in again.lines} == {"unchanged"}
    assert [line.split()[-1] for line in edited.lines] == ["unchanged", "configured", "unchanged"]


def test_wrong_fields_are_all_listed_with_their_place(run, tmp_path):
    """What is wrong in the files is told with file and line, and nothing is changed."""
    file = tmp_path / "queues.yaml"
    file.write_text(
        queue_yaml("a2")
        .replace("namespaceSelector", "namespaceSelectr")
        .replace("nominalQuota: 2", "nominalQuota: []")
    )
    said = run("apply", "-f", str(file))

    assert said.code == 1
    assert f"{file}:10" in said.err
    assert 'spec.namespaceSelectr: Unknown field: did you mean "namespaceSelector"?' in said.err
    assert "nominalQuota" in said.err
    assert run("get", "cq", "a2").code == 1


def test_the_server_refuses_as_an_api_server(run):
    """Rules beyond the shape are told field by field; the others of the request are applied."""
    said = run("apply", "-f", "-", stdin=queue_yaml("a3").replace("nominalQuota: 2", 'nominalQuota: "-2"'))

    assert said.code == 1
    assert 'The ClusterQueue "a3" is invalid:' in said.err
    assert "* spec.resourceGroups[0].flavors[0].resources[0].nominalQuota" in said.err
    assert "localqueue.kueue.x-k8s.io/a3 created" in said.out
    assert 'there is no ClusterQueue "a3" (yet)' in said.err


KUEUE_MANAGER = """
apiVersion: v1
kind: ConfigMap
metadata: {name: kueue-manager-config, namespace: kueue-system}
data:
  controller_manager_config.yaml: |
    apiVersion: config.kueue.x-k8s.io/v1beta2
    kind: Configuration
    webhook: {port: 9443}
    waitForPodsReady: {timeout: 90s}
"""


def test_the_configuration_of_kueues_manager_is_taken_over(run):
    """From its ConfigMap; what has no effect is told, what is refused has the manager's names."""
    applied = run("apply", "-f", "-", stdin=KUEUE_MANAGER).ok()
    assert applied.lines == ["configuration.sluice.dev/default created"]
    assert "default: webhook.port has no effect: there are no webhooks" in applied.err
    wait = run("get", "configuration", "default", "-o", "json").ok().json["spec"]["waitForPodsReady"]
    assert (wait["enable"], wait["timeoutSeconds"]) == (True, 90)

    refused = run("apply", "-f", "-", stdin=KUEUE_MANAGER.replace("90s", "0s"))
    assert refused.code == 1
    assert "waitForPodsReady.timeout: Invalid value" in refused.err
    assert "spec." not in refused.err
    run("delete", "-f", "-", stdin=KUEUE_MANAGER).ok()
    assert run("get", "configuration", "default").code == 1


def test_dry_runs_change_nothing(run):
    """Client: only read; server: asked, not done."""
    client = run("apply", "-f", "-", "--dry-run=client", stdin=queue_yaml("a4")).ok()
    server = run("apply", "-f", "-", "--dry-run=server", stdin=queue_yaml("a4")).ok()

    assert all(line.endswith("checked (client dry run)") for line in client.lines)
    assert all(line.endswith("created (server dry run)") for line in server.lines)
    assert run("get", "cq", "a4", "--ignore-not-found").ok().out == ""


def test_immutable_fields(run):
    """Another cluster queue for a local queue is refused."""
    run("apply", "-f", "-", stdin=queue_yaml("a5")).ok()
    said = run("apply", "-f", "-", stdin=queue_yaml("a5").replace("clusterQueue: a5", "clusterQueue: other"))

    assert said.code == 1
    assert "spec.clusterQueue" in said.err
    assert "field is immutable" in said.err


def test_what_get_prints_applies_again(run):
    """`get -o yaml | apply -f -` changes nothing."""
    run("apply", "-f", "-", stdin=queue_yaml("a6")).ok()
    printed = run("get", "cq/a6", "lq/a6", "rf/a6-flavor", "-o", "yaml").ok()

    assert all(line.endswith("unchanged") for line in run("apply", "-f", "-", stdin=printed.out).ok().lines)


def test_delete_waits_for_users(run):
    """A flavor that a queue names terminates, and goes with the queue."""
    run("apply", "-f", "-", stdin=queue_yaml("a7")).ok()
    first = run("delete", "rf", "a7-flavor").ok()
    assert first.lines == ["resourceflavor.kueue.x-k8s.io/a7-flavor terminating"]
    assert 'ClusterQueue "a7"' in first.err

    run("delete", "lq/a7", "cq/a7").ok()
    wait_until(lambda: run("get", "rf", "a7-flavor").code == 1)
    missing = run("delete", "cq", "a7")
    assert missing.code == 1
    assert "NotFound" in missing.err
    run("delete", "cq", "a7", "--ignore-not-found").ok()


def test_tables(run):
    """Titles, wide columns, namespaces, selectors, names, one field."""
    run("apply", "-f", "-", stdin=queue_yaml("a8", namespace="team-8")).ok()

    assert run("get", "cq", "a8").ok().lines[0].split()[:3] == ["NAME", "COHORT", "ACTIVE"]
    assert "STRATEGY" in run("get", "cq", "a8", "-o", "wide").ok().out
    assert run("get", "cq", "-l", "test=a8", "-o", "name").ok().lines == ["clusterqueue.kueue.x-k8s.io/a8"]
    assert run("get", "lq", "-A", "--no-headers", "-o", "name").ok().out.count("/a8") == 1
    assert run("get", "lq", "a8", "-n", "team-8", "-o", "{.spec.clusterQueue}").ok().lines == ["a8"]
    assert run("get", "cq/a8", "-o", "json").ok().json["status"]["pendingWorkloads"] == 0
    elsewhere = run("get", "lq", "a8")
    assert elsewhere.code == 1
    assert "use -n team-8" in elsewhere.err


def test_near_misses(run):
    """Names, types and commands that are almost right get the right one."""
    run("apply", "-f", "-", stdin=queue_yaml("nearly-there")).ok()

    assert 'Did you mean "nearly-there"?' in run("get", "cq", "nearly-ther").err
    assert 'Did you mean "clusterqueues"?' in run("get", "clusterqueuess").err
    wrong = run("gett")
    assert wrong.code == 2
    assert 'Did you mean "get"?' in wrong.err


def test_names_with_dots(run):
    """A dot in a name is part of it, everywhere."""
    run("apply", "-f", "-", stdin=queue_yaml("v1.2")).ok()
    run("submit", "-q", "v1.2", "--name", "job.with.dots", "--", "sleep", "1").ok()

    def phase():
        return run("get", "job", "job.with.dots", "-o", "{.status.phase}").out.strip()

    wait_until(lambda: phase() == "Admitted")
    run("job", "finish", "job.with.dots").ok()
    wait_until(lambda: phase() == "Succeeded")
