"""The stories of KEP-77 on real services and a real agent: `examples/elastic/`."""

import json
import os
import re
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.nats


@pytest.fixture(scope="module")
def agent(cell):
    """An agent of the module's cell; it ends with it."""
    work_dir = cell.directory / "work"
    env = {"AGENT_NAME": "elastic", "AGENT_WORK_DIR": str(work_dir), "AGENT_GRACE_S": "2"}
    return cell.start("agent", env)


def pids(agent, job):
    """Index -> pid of the job's processes."""
    found = {}
    for process in psutil.Process(agent.pid).children(recursive=True):
        try:
            env = process.environ()
            if env.get("SLUICE_JOB_NAME") == job and process.status() != "zombie":
                found[int(env["SLUICE_POD_INDEX"])] = process.pid
        except (psutil.Error, OSError):
            continue
    return found


def delete(run, *names):
    """Delete jobs, and wait until they are gone: until then `apply` leaves one of the same name as it is."""
    run("job", "delete", *names).ok()
    wait_until(lambda: run("get", "wl", "-o", "json").ok().json["items"] == [])


def used(run):
    found = run("get", "cq", "elastic", "-o", "json").ok().json
    return found["status"]["flavorsReservation"][0]["resources"][0]["total"]


def test_a_running_job_grows_and_shrinks(run, agent):
    """Stories 1 and 2: processes come and go at the upper end, all others keep their pid; quota follows."""
    before = totals(run)
    run("apply", "-f", "examples/elastic/queue.yaml").ok()
    run("apply", "-f", "examples/elastic/job.yaml").ok()
    began = wait_until(lambda: len(found := pids(agent, "demo-slice")) == 3 and found)

    run("job", "scale", "demo-slice", "5").ok()
    grown = wait_until(lambda: len(found := pids(agent, "demo-slice")) == 5 and found)
    assert {index: grown[index] for index in began} == began
    assert wait_until(lambda: str(used(run)) == "5")
    slices = run("get", "job", "demo-slice", "-o", "json").ok().json["status"]["slices"]
    assert [s["state"] for s in slices] == ["Replaced", "Admitted"]
    assert slices[1]["replaces"] == slices[0]["name"]
    workload = run("get", "wl", slices[0]["name"], "-o", "json").ok().json
    finished = next(c for c in workload["status"]["conditions"] if c["type"] == "Finished")
    assert finished["reason"] == "WorkloadSliceReplaced"
    assert finished["message"].startswith("Replaced to accommodate a workload (UID: ")

    run("job", "scale", "demo-slice", "2").ok()
    shrunk = wait_until(lambda: len(found := pids(agent, "demo-slice")) == 2 and found)
    assert shrunk == {index: began[index] for index in (0, 1)}
    assert wait_until(lambda: str(used(run)) == "2")

    # More than the queue can ever have: it waits, and what runs goes on.
    run("job", "scale", "demo-slice", "9").ok()
    waits = wait_until(
        lambda: (
            len(s := run("get", "job", "demo-slice", "-o", "json").ok().json["status"]["slices"]) == 3 and s
        )
    )
    assert [s["state"] for s in waits] == ["Replaced", "Admitted", "Pending"]
    assert pids(agent, "demo-slice") == shrunk
    names = [s["name"] for s in waits]
    shown = slices_of(run, "ExceedsMaxQuota")
    assert shown[names[2]][1:5] == ["demo-slice", "Pending", "9 (7 gated)", names[1]]
    assert shown[names[0]][2] == "Replaced"
    assert (
        "previously considered podsets requests (0) + current podset request (9) > maximum capacity (6)"
        in (run("get", "slice", names[2], "-o", "wide").ok().out)
    )
    described = run("describe", "wl", names[1]).ok().out
    assert f"{names[1]}: 2 x main, Admitted, after {names[0]} (this one)" in described
    assert "UpdatedWorkload" in described

    run("job", "scale", "demo-slice", "3").ok()
    again = wait_until(lambda: len(found := pids(agent, "demo-slice")) == 3 and found)
    assert shrunk.items() <= again.items()
    lines = run("describe", "job", "demo-slice").ok().lines
    begin = lines.index("Slices:")
    assert [line.split(":")[0].strip() for line in lines[begin + 1 : begin + 4]] == names
    text = "\n".join(lines)
    assert "CreatedWorkload" in text
    assert "WorkloadSliceReplaced" in text
    counted = {key: value - before.get(key, 0) for key, value in totals(run).items()}
    assert counted["sluice_workload_slices_created_total", "elastic", ""] == 2
    assert counted["sluice_workload_slices_replaced_total", "elastic", ""] == 2
    assert counted["sluice_workload_slices_resized_total", "elastic", "admitted"] == 1
    assert counted["sluice_workload_slices_resized_total", "elastic", "pending"] == 1

    run("job", "delete", "demo-slice").ok()
    wait_until(lambda: not any(psutil.pid_exists(pid) and _runs(pid) for pid in again.values()))
    wait_until(lambda: run("get", "slices", "-o", "json").ok().json["items"] == [])
    assert run("get", "wl", "-o", "json").ok().json["items"] == []


def slices_of(run, word):
    """Return the rows of `get slices` by name, once *word* is among them."""

    def rows():
        said = run("get", "slices").ok()
        return word in said.out and {
            row[0]: row for line in said.lines[1:] if (row := re.split(r"  +", line.strip()))
        }

    return wait_until(rows)


def totals(run):
    """Return (metric, cluster queue, state or constraint) -> value."""
    found = run("status", "-o", "json").ok().json["totals"]
    return {
        (
            each["metric"],
            each["labels"].get("cluster_queue", ""),
            each["labels"].get("state", each["labels"].get("constraint", "")),
        ): each["value"]
        for each in found
    }


def _runs(pid):
    try:
        return psutil.Process(pid).status() != "zombie" and os.getpid() != pid
    except psutil.Error:
        return False


def test_an_elastic_job_keeps_a_pod(run, agent):
    """Shrinking to nothing is refused with the field's path, and what runs goes on; so is opting out."""
    run("apply", "-f", "examples/elastic/queue.yaml").ok()
    run("apply", "-f", "examples/elastic/job.yaml").ok()
    began = wait_until(lambda: len(found := pids(agent, "demo-slice")) == 3 and found)
    assert run("job", "scale", "demo-slice", "--", "-1").code == 2
    refused = run("job", "scale", "demo-slice", "0")
    assert refused.code == 1
    assert "podSets: Invalid value: 0: an elastic job keeps at least" in refused.err
    wait_until(lambda: "podSets: Invalid value: 0: an elastic job keeps at least" in job_message(run))
    manifest = Path("examples/elastic/job.yaml").read_text()
    plain = manifest.replace("annotations:", "#")
    assert plain != manifest
    run("submit", "-f", "-", stdin=plain)
    wait_until(lambda: "metadata.annotations[kueue.x-k8s.io/elastic-job]" in job_message(run))
    assert pids(agent, "demo-slice") == began
    delete(run, "demo-slice")
    assert not pids(agent, "demo-slice")


def job_message(run):
    return run("get", "job", "demo-slice", "-o", "{.status.refused.message}").out


def test_growth_keeps_the_flavor(run, agent):
    """What began on the small flavor stays there: growth beyond it waits, as KEP-77's last test says."""
    run("apply", "-f", "examples/elastic/sticky.yaml").ok()
    began = wait_until(lambda: len(found := pids(agent, "sticky")) == 2 and found)
    run("job", "scale", "sticky", "5").ok()
    text = "could not assign sticky-large flavor since the original workload is assigned: sticky-small"
    wait_until(lambda: text in run("describe", "job", "sticky").ok().out or text in wide(run))
    assert pids(agent, "sticky") == began
    run("job", "scale", "sticky", "3").ok()
    wait_until(lambda: began.items() <= (found := pids(agent, "sticky")).items() and len(found) == 3)
    delete(run, "sticky")


def wide(run):
    return run("get", "slices", "-o", "wide").ok().out


def test_growth_preempts_and_is_preempted_whole(run, agent):
    """The larger slice preempts what is less important (WS6); a more important job stops all of it."""
    run("apply", "-f", "examples/elastic/queue.yaml").ok()
    rigid(run, "low", cpu=2, priority=-10)
    wait_until(lambda: len(pids(agent, "low")) == 1)
    run("apply", "-f", "examples/elastic/job.yaml").ok()
    began = wait_until(lambda: len(found := pids(agent, "demo-slice")) == 3 and found)
    run("job", "scale", "demo-slice", "6").ok()
    grown = wait_until(lambda: len(found := pids(agent, "demo-slice")) == 6 and found)
    assert began.items() <= grown.items()
    assert not pids(agent, "low")

    # While a still larger slice waits, both go; the new one asks for all.
    run("job", "scale", "demo-slice", "7").ok()
    slices_of(run, "7 (1 gated)")
    rigid(run, "high", cpu=6, priority=10)
    wait_until(lambda: len(pids(agent, "high")) == 1 and not pids(agent, "demo-slice"))
    status = run("get", "job", "demo-slice", "-o", "json").ok().json["status"]
    assert [s["state"] for s in status["slices"]].count("Pending") == 1
    assert not [s for s in status["slices"] if s["state"] == "Admitted"]
    run("job", "scale", "demo-slice", "4").ok()
    run("job", "finish", "high").ok()
    wait_until(lambda: len(pids(agent, "demo-slice")) == 4)
    delete(run, "demo-slice", "low", "high")


def rigid(run, name, *, cpu, priority, queue="elastic"):
    spec = {"queueName": queue, "priority": priority, "resources": {"cpu": cpu}}
    job = {"apiVersion": "sluice.dev/v1alpha1", "kind": "Job", "metadata": {"name": name}}
    job["spec"] = {**spec, "command": ["sleep", "600"], "terminationGracePeriodSeconds": 1}
    run("apply", "-f", "-", stdin=json.dumps(job)).ok()


CHECKED = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: late}
spec: {controllerName: example.com/late}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: checked-flavor}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: checked}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  admissionChecksStrategy: {admissionChecks: [{name: late}]}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: checked-flavor, resources: [{name: cpu, nominalQuota: 6}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: checked, namespace: default}
spec: {clusterQueue: checked}
"""


def test_growth_waits_for_its_checks(run, agent, cell, tmp_path):
    """Reserved is not admitted: the new pods stay gated until the check of their slice is ready."""
    command = ("-m", "tests.e2e.late_check")
    controller = cell.start("late", {"CHECK_ANSWERS": str(tmp_path)}, command=command)
    answer = tmp_path / "checked"
    answer.write_text("ready")
    run("apply", "-f", "-", stdin=CHECKED).ok()
    spec = {"queueName": "checked", "replicas": 2, "resources": {"cpu": 1}, "command": ["sleep", "600"]}
    metadata = {"name": "checked", "annotations": {"kueue.x-k8s.io/elastic-job": "true"}}
    job = {"apiVersion": "sluice.dev/v1alpha1", "kind": "Job", "metadata": metadata, "spec": spec}
    run("submit", "-f", "-", stdin=json.dumps(job)).ok()
    began = wait_until(lambda: len(found := pids(agent, "checked")) == 2 and found)

    answer.unlink()
    run("job", "scale", "checked", "5").ok()
    shown = slices_of(run, "QuotaReserved")
    assert ["checked", "QuotaReserved", "5 (3 gated)"] in [row[1:4] for row in shown.values()]
    assert pids(agent, "checked") == began
    answer.write_text("ready")
    grown = wait_until(lambda: len(found := pids(agent, "checked")) == 5 and found)
    assert began.items() <= grown.items()

    # Down in place asks nobody; what is reserved for a growth goes with the job when that is preempted (WS6).
    answer.unlink()
    run("job", "scale", "checked", "2").ok()
    wait_until(lambda: pids(agent, "checked") == began)
    run("job", "scale", "checked", "4").ok()
    slices_of(run, "4 (2 gated)")
    (tmp_path / "urgent").write_text("ready")
    rigid(run, "urgent", cpu=6, priority=10, queue="checked")
    wait_until(lambda: len(pids(agent, "urgent")) == 1 and not pids(agent, "checked"))
    delete(run, "checked", "urgent")
    cell.kill(controller)


def test_pods_ended_by_a_resize_do_their_work_again(run, agent, tmp_path):
    """A job of three, made smaller: the workers that were ended exit 0 on TERM, which is no success (WS7)."""
    run("apply", "-f", "examples/elastic/queue.yaml").ok()
    script = (
        "trap 'exit 0' TERM; while ! test -e go; do sleep 0.05; done; touch done-$JOB_COMPLETION_INDEX; "
        "while ! test -e end; do sleep 0.05; done"
    )
    container: dict[str, Any] = {
        "name": "worker",
        "command": ["sh", "-c", script],
        "workingDir": str(tmp_path),
    }
    container["resources"] = {"requests": {"cpu": 1}}
    metadata = {
        "name": "indexed",
        "labels": {"kueue.x-k8s.io/queue-name": "elastic"},
        "annotations": {"kueue.x-k8s.io/elastic-job": "true"},
    }
    pods = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "template": pods}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    run("submit", "-f", "-", stdin=json.dumps(job)).ok()
    wait_until(lambda: len(pids(agent, "indexed")) == 3)
    run("job", "scale", "indexed", "1").ok()
    wait_until(lambda: len(pids(agent, "indexed")) == 1)
    assert not list(tmp_path.glob("done-*"))

    # Grown again, one of them starts again; the last one follows when a pod has ended by itself.
    run("job", "scale", "indexed", "2").ok()
    wait_until(lambda: sorted(pids(agent, "indexed")) == [0, 1])
    (tmp_path / "go").touch()
    wait_until(lambda: {path.name for path in tmp_path.glob("done-*")} == {"done-0", "done-1"})
    (tmp_path / "end").touch()
    wait_until(lambda: run("get", "job", "indexed", "-o", "{.status.phase}").ok().out.strip() == "Succeeded")
    assert {path.name for path in tmp_path.glob("done-*")} == {"done-0", "done-1", "done-2"}
    assert run("get", "job", "indexed", "-o", "json").ok().json["status"]["exitCodes"] == {
        "main-0": 0,
        "main-1": 0,
        "main-2": 0,
    }
    delete(run, "indexed")
