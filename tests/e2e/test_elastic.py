"""The stories of KEP-77 on real services and a real agent: `examples/elastic/`."""

import os

import psutil
import pytest

from .conftest import eventually

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


def used(run):
    found = run("get", "cq", "elastic", "-o", "json").ok().json
    return found["status"]["flavorsReservation"][0]["resources"][0]["total"]


def test_a_running_job_grows_and_shrinks(run, agent):
    """Stories 1 and 2: processes come and go at the upper end, all others keep their pid; quota follows."""
    run("apply", "-f", "examples/elastic/queue.yaml").ok()
    run("apply", "-f", "examples/elastic/job.yaml").ok()
    began = eventually(lambda: len(found := pids(agent, "demo-slice")) == 3 and found)

    run("job", "scale", "demo-slice", "5").ok()
    grown = eventually(lambda: len(found := pids(agent, "demo-slice")) == 5 and found)
    assert {index: grown[index] for index in began} == began
    assert eventually(lambda: str(used(run)) == "5")
    slices = run("get", "job", "demo-slice", "-o", "json").ok().json["status"]["slices"]
    assert [s["state"] for s in slices] == ["Replaced", "Admitted"]
    assert slices[1]["replaces"] == slices[0]["name"]
    workload = run("get", "wl", slices[0]["name"], "-o", "json").ok().json
    finished = next(c for c in workload["status"]["conditions"] if c["type"] == "Finished")
    assert finished["reason"] == "WorkloadSliceReplaced"
    assert finished["message"].startswith("Replaced to accommodate a workload (UID: ")

    run("job", "scale", "demo-slice", "2").ok()
    shrunk = eventually(lambda: len(found := pids(agent, "demo-slice")) == 2 and found)
    assert shrunk == {index: began[index] for index in (0, 1)}
    assert eventually(lambda: str(used(run)) == "2")

    # More than the queue can ever have: it waits, and what runs goes on.
    run("job", "scale", "demo-slice", "9").ok()
    waits = eventually(
        lambda: (
            len(s := run("get", "job", "demo-slice", "-o", "json").ok().json["status"]["slices"]) == 3 and s
        )
    )
    assert [s["state"] for s in waits] == ["Replaced", "Admitted", "Pending"]
    assert pids(agent, "demo-slice") == shrunk
    run("job", "scale", "demo-slice", "3").ok()
    again = eventually(lambda: len(found := pids(agent, "demo-slice")) == 3 and found)
    assert shrunk.items() <= again.items()
    assert "Slices" in run("describe", "job", "demo-slice").ok().out

    run("job", "delete", "demo-slice").ok()
    eventually(lambda: not any(psutil.pid_exists(pid) and _runs(pid) for pid in again.values()))
    eventually(lambda: run("get", "wl", "-o", "json").ok().json["items"] == [])


def _runs(pid):
    try:
        return psutil.Process(pid).status() != "zombie" and os.getpid() != pid
    except psutil.Error:
        return False


def test_an_elastic_job_keeps_a_pod(run, agent):
    """Shrinking to nothing is refused, and so is partial admission on the same job."""
    run("apply", "-f", "examples/elastic/queue.yaml").ok()
    run("apply", "-f", "examples/elastic/job.yaml").ok()
    eventually(lambda: len(pids(agent, "demo-slice")) == 3)
    run("job", "scale", "demo-slice", "0")
    message = eventually(lambda: run("get", "job", "demo-slice", "-o", "{.status.phase}").ok().out)
    assert message
    assert len(pids(agent, "demo-slice")) == 3
    run("job", "delete", "demo-slice").ok()
