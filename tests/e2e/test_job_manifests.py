"""Jobs as they were submitted, edited, refused and scaled: what `get -o yaml` and `--watch` say of them."""

import subprocess
import sys

import pytest
import yaml

from tests.support.waiting import wait_until

from .conftest import queue_yaml

pytestmark = pytest.mark.nats


def job_yaml(name: str, queue: str, *, cpu: str = "1", replicas: int = 1, label: str = "one") -> str:
    return f"""
apiVersion: sluice.dev/v1alpha1
kind: Job
metadata: {{name: {name}, labels: {{edit: {label}}}}}
spec: {{queueName: {queue}, command: [sleep, "9"], replicas: {replicas}, resources: {{cpu: {cpu}}}}}
"""


def got(run, name):
    return yaml.safe_load(run("get", "job", name, "-o", "yaml").ok().out)


def phase(run, name):
    return run("get", "job", name, "-o", "{.status.phase}").out.strip()


def test_a_job_shows_the_manifest_in_force(run):
    """Its spec as submitted; after an edit the new one; after a refused edit the one that it goes by."""
    run("apply", "-f", "-", stdin=queue_yaml("m1", cpu=1)).ok()
    run("submit", "-f", "-", stdin=job_yaml("m1-first", "m1")).ok()
    run("submit", "-f", "-", stdin=job_yaml("m1-waits", "m1")).ok()
    wait_until(lambda: [phase(run, "m1-first"), phase(run, "m1-waits")] == ["Admitted", "Queued"])
    shown = got(run, "m1-waits")
    assert list(shown) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert shown["spec"]["command"] == ["sleep", "9"]
    uid = shown["metadata"]["uid"]
    workload = yaml.safe_load(run("get", "wl", shown["status"]["workload"], "-o", "yaml").ok().out)
    assert workload["metadata"]["ownerReferences"][0]["uid"] == uid
    assert workload["spec"]["podSets"][0]["count"] == 1

    run("submit", "-f", "-", stdin=job_yaml("m1-waits", "m1", replicas=3, label="two")).ok()
    wait_until(lambda: got(run, "m1-waits")["spec"]["replicas"] == 3)
    edited = got(run, "m1-waits")
    assert (edited["metadata"]["uid"], edited["metadata"]["labels"]) == (uid, {"edit": "two"})

    refused = job_yaml("m1-waits", "m1", replicas=7).replace("queueName", "priorityClassName: no, queueName")
    said = run("submit", "-f", "-", stdin=refused)
    assert said.code == 1
    assert "job/m1-waits was not submitted (event " in said.err
    assert "spec.priorityClassName: Not found" in said.err
    assert "submitted" not in said.out
    wait_until(lambda: "Not found" in got(run, "m1-waits")["status"].get("refused", {}).get("message", ""))
    assert got(run, "m1-waits")["spec"]["replicas"] == 3
    assert phase(run, "m1-waits") == "Queued"


def test_submitting_says_what_became_of_each(run):
    """What changes nothing is no failure; what was refused is, and the others are submitted."""
    run("apply", "-f", "-", stdin=queue_yaml("m8", cpu=0)).ok()
    one, two = job_yaml("m8-one", "m8"), job_yaml("m8-two", "m8")
    assert run("submit", "-f", "-", stdin=one).ok().lines == ["job/m8-one submitted"]
    again = run("submit", "-f", "-", stdin=one).ok()
    assert again.lines == ["job/m8-one submitted: it changes nothing (Duplicate)"]
    refused = two.replace("queueName", "priorityClassName: no, queueName")
    said = run("submit", "-f", "-", stdin=job_yaml("m8-one", "m8", replicas=2) + "---" + refused)
    assert (said.code, said.lines) == (1, ["job/m8-one submitted: changed: 2 x main"])
    assert "1 job not submitted" in said.err


def test_deactivated_and_activated_by_hand(run):
    """It gives its quota up and waits; activated, it goes through the queue again."""
    run("apply", "-f", "-", stdin=queue_yaml("m9", cpu=1)).ok()
    run("submit", "-f", "-", stdin=job_yaml("m9-a", "m9") + "---" + job_yaml("m9-b", "m9")).ok()
    wait_until(lambda: [phase(run, "m9-a"), phase(run, "m9-b")] == ["Admitted", "Queued"])
    said = run("job", "deactivate", "m9-b", "-m", "not before Monday").ok()
    assert said.out.startswith("job/m9-b deactivated, event ")
    wait_until(lambda: phase(run, "m9-b") == "Suspended")
    assert "job/m9-b is inactive already, event " in run("job", "deactivate", "m9-b").ok().out
    run("job", "finish", "m9-a").ok()
    wait_until(lambda: phase(run, "m9-a") == "Succeeded")
    assert phase(run, "m9-b") == "Suspended"
    assert run("job", "activate", "m9-b").ok().out.startswith("job/m9-b activated, event ")
    wait_until(lambda: phase(run, "m9-b") == "Admitted")
    missing = run("job", "activate", "m9-none", "m9-b")
    assert missing.code == 1
    assert "m9-none" in missing.err
    assert "job/m9-b is active already" in missing.out


def test_a_scaled_job_shows_its_count(run):
    """The spec has the count that the job has now, in the words of its kind."""
    run("apply", "-f", "-", stdin=queue_yaml("m2", cpu=0)).ok()
    batch = """
apiVersion: batch/v1
kind: Job
metadata: {name: m2-batch, labels: {kueue.x-k8s.io/queue-name: m2}}
spec:
  parallelism: 2
  completions: 9
  template:
    spec:
      containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]
      restartPolicy: Never
"""
    run("submit", "-f", "-", stdin=batch + "---" + job_yaml("m2-own", "m2")).ok()
    wait_until(lambda: phase(run, "m2-own") == "Queued")
    run("job", "scale", "m2-batch", "4").ok()
    run("job", "scale", "m2-own", "5").ok()
    wait_until(lambda: got(run, "m2-batch")["status"]["pods"] == 4)
    wait_until(lambda: got(run, "m2-own")["status"]["pods"] == 5)
    assert got(run, "m2-batch")["spec"]["parallelism"] == 4
    assert got(run, "m2-own")["spec"]["replicas"] == 5


def test_a_name_is_used_again(run):
    """A job under the name of one that is over is another one, from the moment it was submitted."""
    run("apply", "-f", "-", stdin=queue_yaml("m3")).ok()
    run("submit", "-f", "-", stdin=job_yaml("m3-again", "m3")).ok()
    wait_until(lambda: phase(run, "m3-again") == "Admitted")
    run("job", "finish", "m3-again", "--failed", "-m", "disk full").ok()
    wait_until(lambda: phase(run, "m3-again") == "Failed")
    first = got(run, "m3-again")

    run("submit", "-f", "-", stdin=job_yaml("m3-again", "m3", label="new")).ok()
    late = run("wait", "job", "m3-again", "--for", "succeeded", "--timeout", "300ms")
    assert late.code == 3, "the end of the first is not the end of the second"
    wait_until(lambda: phase(run, "m3-again") == "Admitted")
    second = got(run, "m3-again")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert "message" not in second["status"]


def test_a_refused_job_is_shown_until_it_is_deleted(run):
    """Rejected with every field error, and gone when it is deleted."""
    run("apply", "-f", "-", stdin=queue_yaml("m4")).ok()
    refused = job_yaml("m4-bad", "m4").replace("queueName", "priorityClassName: nope, queueName")
    assert run("submit", "-f", "-", stdin=refused).code == 1
    wait_until(lambda: phase(run, "m4-bad") == "Rejected")
    assert "nope" in run("describe", "job", "m4-bad").ok().out
    run("delete", "job", "m4-bad").ok()
    wait_until(lambda: run("get", "job", "m4-bad").code == 1)


def test_watch_keeps_places_up_to_date(run, cell):
    """When the first leaves the queue, the others' new places are printed."""
    run("apply", "-f", "-", stdin=queue_yaml("m5", cpu=1)).ok()
    names = [f"m5-{number}" for number in range(4)]
    for name in names:
        run("submit", "-q", "m5", "--name", name, "--", "sleep", "5").ok()
    wait_until(lambda: [phase(run, name) for name in names] == ["Admitted", "Queued", "Queued", "Queued"])
    command = [sys.executable, "-m", "sluice.cli.main", "-s", cell.url, "get", "jobs", "-w"]
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert watching.stdout is not None
        rows: list[list[str]] = []
        ended = False
        while ["m5-3", "m5", "Queued", "2"] not in rows:
            line = watching.stdout.readline()
            assert line, rows
            rows.append(line.split()[:4])
            if not ended and ["m5-3", "m5", "Queued", "3"] in rows:
                run("job", "finish", "m5-0").ok()
                ended = True
        assert ["m5-2", "m5", "Queued", "1"] in rows
    finally:
        watching.kill()
        watching.wait()
        assert watching.stdout is not None
        watching.stdout.close()
