"""`sluice up`: a cell in a directory, with agents that run real processes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from sluice.cli.commands.cell.supervisor import is_running
from tests.support.command import sluice
from tests.support.waiting import wait_until

from .conftest import queue_yaml

pytestmark = pytest.mark.nats


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A directory with a running cell: two agents."""
    directory = tmp_path_factory.mktemp("home")
    said = command(directory, "up", "--detach", "--agents", "2", "--timeout", "60")
    assert said.returncode == 0, said.stderr
    assert "5 services, 2 agents" in said.stdout
    yield directory
    command(directory, "down")


def command(directory, *arguments, timeout=150):
    """Run the command in *directory*, as a user would."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("SLUICE_", "NATS_"))}
    return subprocess.run(
        [sys.executable, "-m", "sluice.cli.main", *arguments],
        cwd=directory,
        env=env,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def processes_of(directory: Path) -> list[str]:
    """Return the cell's live processes by command line: its path is in their arguments or environment."""
    found = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            text = line + process.environ().get("SLUICE_DATA_DIR", "")
        except (psutil.Error, OSError):
            continue  # ended meanwhile, a zombie, or somebody else's
        if str(directory) in text:
            found.append(line)
    return found


def test_a_second_up_says_where_the_first_is(home):
    """It names url and pid, and changes nothing."""
    said = command(home, "up")

    assert said.returncode == 1
    assert "already running" in said.stderr
    assert "nats://127.0.0.1:" in said.stderr
    assert "pid" in said.stderr


def test_the_cell_is_found_from_below(home):
    """As git finds its repository."""
    below = home / "a" / "b"
    below.mkdir(parents=True)
    said = command(below, "status")

    assert said.returncode == 0, said.stderr
    assert said.stdout.count("leader") == 4
    assert said.stdout.count("Ready") == 2
    assert "nats-server" in said.stdout


def test_a_real_job_runs_and_its_exit_code_counts(home):
    """Submitted from a command line, run by an agent, waited for; a failing one fails the command."""
    (home / "queues.yaml").write_text(queue_yaml("u1"))
    assert command(home, "apply", "-f", "queues.yaml").returncode == 0
    good = command(
        home,
        "submit",
        "-q",
        "u1",
        "--name",
        "good",
        "--wait",
        "--timeout",
        "120s",
        "--",
        "sh",
        "-c",
        "exit 0",
    )
    assert good.returncode == 0, good.stderr
    assert "default/good: Succeeded" in good.stderr
    spoken = command(home, "submit", "-q", "u1", "--name", "spoken", "--wait", "--", "echo", "hello")
    assert spoken.returncode == 0, spoken.stderr
    assert command(home, "logs", "spoken").stdout == "hello\n"
    assert "may not have run yet" in command(home, "logs", "never").stderr

    bad = command(
        home, "submit", "-q", "u1", "--name", "bad", "--wait", "--timeout", "120s", "--", "sh", "-c", "exit 3"
    )
    assert bad.returncode == 1
    assert "default/bad: Failed" in bad.stderr
    described = command(home, "describe", "job", "bad").stdout
    assert "main-0: 3" in described
    assert "Ran on:           agent-" in described


def test_a_service_that_dies_is_started_again(home):
    """The supervisor brings it back, and jobs go on."""
    (home / "queues.yaml").write_text(queue_yaml("u2"))
    assert command(home, "apply", "-f", "queues.yaml").returncode == 0
    for label in ("scheduler", "api", "slice-aggregator"):
        rows = command(home, "status").stdout.splitlines()
        row = next(line for line in rows if line.startswith(label) and line.endswith(".log"))
        os.kill(int(row.split()[1]), signal.SIGKILL)
    wait_until(lambda: command(home, "status").stdout.count("leader") == 4)
    said = command(home, "submit", "-q", "u2", "--name", "after", "--wait", "--timeout", "120s", "--", "true")

    assert said.returncode == 0, said.stderr


def test_down_leaves_nothing_running_and_up_goes_on(tmp_path):
    """After `down` no process is left; after the next `up` the queues and jobs are there again."""
    assert command(tmp_path, "up", "-d", "--agents", "0").returncode == 0
    (tmp_path / "queues.yaml").write_text(queue_yaml("kept"))
    assert command(tmp_path, "apply", "-f", "queues.yaml").returncode == 0
    assert command(tmp_path, "submit", "-q", "kept", "--name", "kept", "--", "true").returncode == 0
    assert "Stopped cell 'main'" in command(tmp_path, "down").stdout
    wait_until(lambda: not processes_of(tmp_path))

    nobody = command(tmp_path, "get", "jobs")
    assert nobody.returncode == 4
    assert "is not running" in nobody.stderr
    assert "sluice up" in nobody.stderr

    assert command(tmp_path, "up", "-d", "--agents", "0").returncode == 0
    assert "kept" in command(tmp_path, "get", "jobs").stdout
    assert command(tmp_path, "down").returncode == 0
    assert "No cell is running" in command(tmp_path, "down").stdout
    assert not processes_of(tmp_path)


def test_a_killed_up_takes_its_services_with_it(tmp_path):
    """SIGKILL of the supervisor: services and agents end, and the next `up` copes with the server left."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("SLUICE_", "NATS_"))}
    supervisor = subprocess.Popen(
        [sys.executable, "-m", "sluice.cli.main", "up", "--agents", "1"],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert supervisor.stdout is not None
    assert "is up at" in supervisor.stdout.readline()
    supervisor.kill()
    supervisor.wait()
    supervisor.stdout.close()

    try:
        wait_until(lambda: not any("sluice.services." in line for line in processes_of(tmp_path)))
        assert command(tmp_path, "up", "-d", "--agents", "0").returncode == 0
    finally:
        command(tmp_path, "down")
    assert not processes_of(tmp_path)


@pytest.mark.parametrize("cleaner", ["down", "up"])
def test_what_a_killed_up_left_is_ended_and_nobody_else(tmp_path, cleaner):
    """By pid and start time: a process that has only the pid of one of ours is let alone."""
    assert command(tmp_path, "up", "-d", "--agents", "1", "--sync", "always").returncode == 0
    assert 'sync_interval: "always"' in (tmp_path / ".sluice/nats/nats-server.conf").read_text()
    file = tmp_path / ".sluice/up.json"
    state = json.loads(file.read_text())
    sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]
    left, foreign = subprocess.Popen(sleeping), subprocess.Popen(sleeping)
    try:
        os.kill(state["pid"], signal.SIGKILL)
        wait_until(lambda: not any("sluice.services." in line for line in processes_of(tmp_path)))
        # The kernel has told the services; of one that did not hear, this is what the file says.
        one, other = state["processes"][:2]
        one |= {"pid": left.pid, "started": psutil.Process(left.pid).create_time()}
        other["pid"] = foreign.pid
        file.write_text(json.dumps(state))
        said = command(tmp_path, cleaner, *(("-d", "--agents", "0") if cleaner == "up" else ()))
        assert said.returncode == 0, said.stderr
        assert left.wait(5) == -signal.SIGTERM
        wait_until(lambda: not is_running(state["serverPid"]))
        assert foreign.poll() is None
        if cleaner == "down":
            assert "Stopped 2 processes that a killed `sluice up` had left." in said.stdout
            assert "No cell is running" in command(tmp_path, "down").stdout
    finally:
        for process in (left, foreign):
            process.kill()
            process.wait()
        command(tmp_path, "down")
    assert not processes_of(tmp_path)


def test_a_wrong_sync_interval_is_refused(tmp_path):
    """The server would not start with it."""
    said = command(tmp_path, "up", "-d", "--sync", "sometimes")
    assert said.returncode == 2
    assert "neither `always` nor an interval" in said.stderr


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_the_foreground_in_order(tmp_path, which):
    """Ctrl-C and TERM stop everything and exit 0."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("SLUICE_", "NATS_"))}
    process = subprocess.Popen(
        [sys.executable, "-m", "sluice.cli.main", "up", "--agents", "0"],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "is up at" in process.stdout.readline()
    process.send_signal(which)

    assert process.wait(20) == 0
    process.stdout.close()
    assert not processes_of(tmp_path)


def test_no_server_says_what_to_run(tmp_path, monkeypatch):
    """Nothing here, or nothing at the given address: exit 4 and a hint."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLUICE_NATS_URL", raising=False)
    here = sluice("get", "jobs")
    there = sluice("-s", "127.0.0.1:1", "get", "jobs")

    assert (here.code, there.code) == (4, 4)
    assert "no cell here" in here.err
    assert "no Sluice server at nats://127.0.0.1:1" in there.err
    assert "sluice up" in here.err
    assert "sluice up" in there.err


def test_help_and_completion_need_no_server():
    """Help teaches, completion prints a script, unknown words are answered with near ones."""
    assert "sluice up --detach" in sluice("--help").ok().out
    for words in (["get"], ["apply"], ["submit"], ["describe"], ["log", "tail"], ["up"]):
        assert "Examples:" in sluice(*words, "--help").ok().out
    for shell in ("bash", "zsh", "fish"):
        assert "_SLUICE_COMPLETE" in sluice("completion", shell).ok().out
    assert "clusterqueues" in sluice("api-resources").ok().out
    assert sluice("version").ok().out.startswith("sluice ")


def test_the_demo_shows_what_it_promises(tmp_path):
    """Real jobs, queueing, borrowing, a preemption; exit 0 without a terminal; nothing is left."""
    said = command(tmp_path, "demo", timeout=200)

    assert said.returncode == 0, said.stdout[-3000:] + said.stderr[-3000:]
    assert "InCohortReclamation" in said.stdout
    assert "InClusterQueue" in said.stdout
    assert said.stdout.count("Succeeded") >= 38
    assert "MOST BORROWED" in said.stdout
    assert not processes_of(tmp_path)
