"""Jobs through the command line: submitted, queued, admitted, finished; `job finish` plays the executor."""

import asyncio
import re
import subprocess
import sys
import threading

import nats
import pytest

from tests.support.command import sluice
from tests.support.waiting import PATIENCE_S, wait_until

from .conftest import queue_yaml

pytestmark = pytest.mark.nats


def phases(run, *names):
    items = run("get", "jobs", "-o", "json").ok().json["items"]
    found = {item["metadata"]["name"]: item["status"]["phase"] for item in items}
    return [found.get(name) for name in names]


def submit(run, queue, *names, cpu="1"):
    for name in names:
        run("submit", "-q", queue, "--name", name, "--cpu", cpu, "--", "sleep", "5").ok()


def test_a_job_goes_through_the_queue(run):
    """Two fit, the third waits in first place, and follows when one ends."""
    run("apply", "-f", "-", stdin=queue_yaml("j1")).ok()
    submit(run, "j1", "j1-a", "j1-b", "j1-c", "j1-d")
    wait_until(lambda: phases(run, "j1-a", "j1-b", "j1-c", "j1-d") == ["Admitted"] * 2 + ["Queued"] * 2)

    assert run("get", "job", "j1-c", "-o", "{.status.queuePosition}").ok().out.strip() == "1"
    assert run("get", "job", "j1-d", "-o", "{.status.queuePosition}").ok().out.strip() == "2"
    row = run("get", "job", "j1-c").ok().lines[1].split()
    assert row[:4] == ["j1-c", "j1", "Queued", "1"]
    assert "WaitingForQuota" in row

    run("job", "finish", "j1-a").ok()
    wait_until(lambda: phases(run, "j1-a", "j1-c", "j1-d") == ["Succeeded", "Admitted", "Queued"])
    run("job", "finish", "j1-b", "--failed", "-m", "disk full").ok()
    wait_until(lambda: phases(run, "j1-b", "j1-d") == ["Failed", "Admitted"])
    assert "disk full" in run("describe", "job", "j1-b").ok().out


def test_describe_tells_why(run):
    """A pending job's description has the reason, its place and its history; the queue's has bars."""
    run("apply", "-f", "-", stdin=queue_yaml("j2", cpu=1)).ok()
    submit(run, "j2", "j2-a", "j2-b")
    wait_until(lambda: phases(run, "j2-a", "j2-b") == ["Admitted", "Queued"])

    job = run("describe", "job", "j2-b").ok().out
    assert "Position:         1 in j2" in job
    assert "insufficient unused quota for cpu in flavor j2-flavor, 1 more needed" in job
    assert re.search(r"WaitingForQuota +couldn't assign flavors", job)
    queue = run("describe", "cq", "j2").ok().out
    assert "████████████████████ 100%" in queue
    assert "1 pending, 1 with quota, 1 admitted" in queue
    assert "default/job-j2-b" in queue
    events = run("events", "job", "j2-a").ok()
    assert [line.split()[2] for line in events.lines[1:4]] == ["WorkloadCreated", "QuotaReserved", "Admitted"]


def test_wait_comes_back_when_it_is_over(run, cell):
    """`wait` exits 0 for success, 1 for failure, 3 when the time is up."""
    run("apply", "-f", "-", stdin=queue_yaml("j3")).ok()
    submit(run, "j3", "j3-a", "j3-b")
    late = run("wait", "job", "j3-a", "--timeout", "300ms")
    assert late.code == 3
    assert "j3-a (Admitted" in late.err

    done = {}
    waiting = threading.Thread(
        target=lambda: done.update(code=sluice("wait", "job/j3-b", env={"SLUICE_NATS_URL": cell.url}).code)
    )
    run("job", "finish", "j3-a").ok()
    assert run("wait", "job", "j3-a", "--timeout", "150s").ok().out == ""
    run("job", "finish", "j3-b", "--failed").ok()
    waiting.start()
    waiting.join(PATIENCE_S)
    assert done == {"code": 1}


def test_wrong_jobs_are_refused_at_once(run):
    """Field errors before anything is sent; an unknown queue is a warning."""
    broken = """
apiVersion: sluice.dev/v1alpha1
kind: Job
metadata: {name: Broken_Name}
spec: {queueName: x, replicas: -1, command: [sleep], resources: {cpu: much}}
"""
    said = run("submit", "-f", "-", stdin=broken)
    assert said.code == 1
    assert "metadata.name" in said.err
    assert "spec.replicas" in said.err
    assert "spec.resources" in said.err

    assert "not NAME=AMOUNT" in run("submit", "-q", "j4", "--resource", "gpu", "--", "true").err
    much = run("submit", "-q", "j4", "--name", "x", "--gpu", "2x", "--", "true")
    assert "spec.resources[nvidia.com/gpu]: Invalid value" in much.err

    run("apply", "-f", "-", stdin=queue_yaml("j4")).ok()
    warned = run("submit", "-q", "j44", "--name", "j4-lost", "--dry-run", "--", "sleep", "1").ok()
    assert 'no local queue "j44"' in warned.err
    assert 'Did you mean "j4"?' in warned.err


def test_a_command_line_can_want_any_resource(run):
    """GPUs by an option of their own, others by name; the cell sees what was asked for."""
    sets = ("--gpu", "2", "--memory", "1Gi", "--resource", "amd.com/gpu=3")
    run("submit", "-q", "nowhere", "--name", "j4-wants", *sets, "--", "true").ok()
    job = wait_until(lambda: (said := run("get", "job", "j4-wants", "-o", "json")).code == 0 and said.json)
    wants = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2", "amd.com/gpu": "3"}
    assert job["spec"]["resources"] == wants
    run("delete", "job", "j4-wants").ok()


def test_batch_jobs_of_kubernetes_go_through(run):
    """An unmodified batch/v1 Job with a queue label; `apply` takes it too, once."""
    run("apply", "-f", "-", stdin=queue_yaml("j5", cpu=3)).ok()
    manifest = """
apiVersion: batch/v1
kind: Job
metadata:
  generateName: sample-
  labels: {kueue.x-k8s.io/queue-name: j5}
spec:
  parallelism: 3
  completions: 3
  suspend: true
  template:
    spec:
      containers:
      - name: dummy
        image: registry.k8s.io/e2e-test-images/agnhost:2.53
        args: ["pause"]
        resources: {requests: {cpu: 1}}
      restartPolicy: Never
"""
    name = run("submit", "-f", "-", stdin=manifest).ok().out.split()[0].split("/")[1]
    assert name.startswith("sample-")
    wait_until(lambda: phases(run, name) == ["Admitted"])
    assert run("get", "job", name, "-o", "{.status.pods}").ok().out.strip() == "3"

    named = manifest.replace("generateName: sample-", "name: sample")
    assert "submitted" in run("apply", "-f", "-", stdin=named).ok().out
    assert "unchanged" in run("apply", "-f", "-", stdin=named).ok().out


def test_deleting_a_job_takes_everything_with_it(run):
    """Job and workload are gone, the quota is free."""
    run("apply", "-f", "-", stdin=queue_yaml("j6", cpu=1)).ok()
    submit(run, "j6", "j6-a", "j6-b")
    wait_until(lambda: phases(run, "j6-b") == ["Queued"])
    run("delete", "job", "j6-b").ok()
    wait_until(lambda: phases(run, "j6-b") == [None])
    assert "j6-b" not in run("get", "wl").out
    assert run("delete", "job", "j6-b").code == 1


def test_a_queue_in_use_terminates(run):
    """Deleted while a workload holds its quota: it goes when that has ended."""
    run("apply", "-f", "-", stdin=queue_yaml("j7")).ok()
    submit(run, "j7", "j7-a")
    wait_until(lambda: phases(run, "j7-a") == ["Admitted"])

    said = run("delete", "cq", "j7").ok()
    assert said.lines == ["clusterqueue.kueue.x-k8s.io/j7 terminating"]
    assert "1 workload holding its quota" in said.err
    assert "Terminating" in run("get", "cq", "j7").ok().out
    run("job", "finish", "j7-a").ok()
    wait_until(lambda: run("get", "cq", "j7").code == 1)


def test_rejected_messages_are_listed(run, cell):
    """What cannot be taken is told with sequence, subject and field errors; nothing else is held up."""

    async def publish():
        connection = await nats.connect(cell.url)
        stream = connection.jetstream()
        await stream.publish("sluice.main.job.default.garbage", b"\xff\xfe not json")
        await stream.publish(
            "sluice.main.job.default.unknown",
            b'{"specversion":"1.0","id":"x1","source":"t","type":"JobExploded","data":{}}',
        )
        await connection.close()

    asyncio.run(publish())
    run("apply", "-f", "-", stdin=queue_yaml("j8")).ok()
    submit(run, "j8", "j8-a")
    wait_until(lambda: phases(run, "j8-a") == ["Admitted"])

    listed = run("log", "rejected").ok().out
    assert "default/garbage" in listed
    assert "JobExploded of default/unknown" in listed


def test_the_log_reads_like_a_story(run):
    """tail in lines, show in full, ranges, filters."""
    run("apply", "-f", "-", stdin=queue_yaml("j9")).ok()
    submit(run, "j9", "j9-a")
    wait_until(lambda: phases(run, "j9-a") == ["Admitted"])

    lines = run("log", "tail", "-n", "500", "--no-follow", "j9-a").ok().lines
    words = [line.split()[3] for line in lines]
    assert words[:4] == ["JobSubmitted", "WorkloadCreated", "QuotaReserved", "Admitted"]
    submitted, created = lines[0].split()[0], lines[1].split()[0]
    assert f"={submitted}" in lines[1], "a consequence names its cause"
    assert '"name": "j9-a"' in run("log", "show", submitted, "-o", "json").out.replace('":"', '": "')
    assert run("log", "show", f"{submitted}-{created}", "-w", "slices").ok().lines[0].split()[0] == created
    beyond = run("log", "show", "99999999")
    assert beyond.code == 1
    assert "the log ends at" in beyond.err


def test_watch_prints_each_change(run, cell):
    """`get --watch` shows the list, then a line per change."""
    run("apply", "-f", "-", stdin=queue_yaml("j10")).ok()
    watching = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "sluice.cli.main",
            "-s",
            cell.url,
            "get",
            "jobs",
            "--watch",
            "-l",
            "watched=yes",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        manifest = """
apiVersion: sluice.dev/v1alpha1
kind: Job
metadata: {name: j10-a, labels: {watched: "yes"}}
spec: {queueName: j10, command: [sleep, "1"], resources: {cpu: 1}}
"""
        run("submit", "-f", "-", stdin=manifest).ok()
        assert watching.stdout is not None
        seen: list[str] = []

        def read_until(word: str) -> None:
            while not seen or word not in seen[-1]:
                seen.append(watching.stdout.readline())
                assert seen[-1], seen

        read_until("Admitted")
        run("job", "finish", "j10-a").ok()
        read_until("Succeeded")
        assert seen[0].startswith("NAME")
        assert all(line.startswith("j10-a") for line in seen[1:])
    finally:
        watching.kill()
        watching.wait()
        assert watching.stdout is not None
        watching.stdout.close()


def test_an_agent_says_what_it_serves(run, cell, tmp_path):
    """Flavors and host come from its heartbeat; who is not there any more says nothing."""
    env = {"AGENT_NAME": "picky", "AGENT_FLAVORS": "nowhere,elsewhere", "AGENT_WORK_DIR": str(tmp_path)}
    agent = cell.start("agent", env)
    wait_until(lambda: "nowhere,elsewhere" in run("get", "agents").out)
    assert "nowhere, elsewhere" in run("describe", "agent", "picky").ok().out
    status = run("get", "agent", "picky", "-o", "json").ok().json["status"]
    assert status["flavors"] == ["nowhere", "elsewhere"]
    assert status["host"]
    cell.kill(agent)
    wait_until(lambda: "<unknown>" in run("get", "agents").out)
