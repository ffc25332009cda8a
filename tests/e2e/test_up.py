"""`sluice up`: a cell in a directory, with agents that run real processes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sluice.cli.commands.cell.supervisor import is_running
from sluice.log.nats.protocol import shown
from tests.support.command import sluice
from tests.support.waiting import PATIENCE_S, wait_until

from .conftest import queue_yaml

pytestmark = [pytest.mark.nats, pytest.mark.long]


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
    return subprocess.run(
        [sys.executable, "-m", "sluice.cli.main", *arguments],
        cwd=directory,
        env=users_env(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def users_env() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("SLUICE_", "NATS_"))}


@contextlib.contextmanager
def foreground(directory: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`sluice up` in a terminal, from when it is up; killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sluice.cli.main", "up", *arguments],
        cwd=directory,
        env=users_env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert "is up at" in process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


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


def test_nobody_else_gets_in(home):
    """The server asks for a password that only the owner's files have."""
    url = json.loads((home / ".sluice" / "up.json").read_text())["url"]
    password = url.partition("@")[0].rpartition(":")[2]
    assert len(password) > 40
    refused = command(home, "-s", shown(url), "get", "jobs")
    assert refused.returncode != 0
    assert "uthorization" in refused.stderr
    assert command(home, "-s", str(home / ".sluice"), "get", "jobs").returncode == 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            assert password not in " ".join(process.cmdline())
    told = [command(home, *words) for words in (["status"], ["status", "-o", "json"], ["up"])]
    assert not [said for said in told if password in said.stdout + said.stderr]
    readable = []
    for path in (home / ".sluice").rglob("*"):
        above = [p for p in (path, *path.parents) if p.is_relative_to(home)]
        private = [p for p in above if p.stat().st_mode & 0o077 == 0]
        if path.is_file() and not private and password.encode() in path.read_bytes():
            readable.append(path)
    assert readable == []
    for name in ("nats", "logs", "up.json"):
        assert (home / ".sluice" / name).stat().st_mode & 0o077 == 0


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


@pytest.mark.parametrize("label", ["scheduler", "api"])
def test_a_process_that_is_stopped_is_shown_as_such(home, label):
    """It is there, and does nothing: its service is down, and what lets it go on is said."""
    told = json.loads(command(home, "status", "-o", "json").stdout)
    assert {row["state"] for row in told["processes"]} == {"running"}
    assert told["log"] == {"first": 1, "messages": told["end"], "copies": 1, "current": 1} | {
        "bytes": told["log"]["bytes"]
    }
    pid = next(row["pid"] for row in told["processes"] if row["label"] == label)
    os.kill(pid, signal.SIGSTOP)
    try:
        said = command(home, "status")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert said.returncode == (4 if label == "api" else 1)
    rows = [line.split() for line in said.stdout.splitlines()]
    assert [label, "down"] in rows
    assert next(row for row in rows if row[:2] == [label, str(pid)])[2] == "stopped"
    assert f"{label} does not answer: process {pid} is stopped; `kill -CONT {pid}`" in said.stdout
    assert ("log not known" in said.stdout) is (label == "api")
    wait_until(lambda: command(home, "status").returncode == 0)


def test_down_leaves_nothing_running_and_up_goes_on(tmp_path):
    """After `down` no process is left; the next `up` has the jobs again, and TERM ends it in order."""
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

    with foreground(tmp_path, "--agents", "0") as up:
        assert "kept" in command(tmp_path, "get", "jobs").stdout
        up.send_signal(signal.SIGTERM)
        assert up.wait(PATIENCE_S) == 0
    assert not processes_of(tmp_path)
    assert "No cell is running" in command(tmp_path, "down").stdout


@pytest.mark.parametrize("cleaner", ["down", "up"])
def test_what_a_killed_up_left_is_ended_and_nobody_else(tmp_path, cleaner):
    """Services and agents end with it; what is left is ended by pid and start time: a process that has only
    the pid of one of ours is let alone. Ctrl-C ends the next `up` in order, too."""
    sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]
    left, foreign = subprocess.Popen(sleeping), subprocess.Popen(sleeping)
    try:
        state = _kill_an_up(tmp_path, detached=cleaner == "down")
        # The kernel has told the services; of one that did not hear, this is what the file says.
        one, other = state["processes"][:2]
        one |= {"pid": left.pid, "started": psutil.Process(left.pid).create_time()}
        # Whatever began in the same half second counts as the same process: a service may have.
        other |= {"pid": foreign.pid, "started": psutil.Process(foreign.pid).create_time() - 60}
        (tmp_path / ".sluice/up.json").write_text(json.dumps(state))
        if cleaner == "up":
            with foreground(tmp_path, "--agents", "0") as up:
                up.send_signal(signal.SIGINT)
                assert up.wait(PATIENCE_S) == 0
        else:
            said = command(tmp_path, "down")
            assert said.returncode == 0, said.stderr
            assert "Stopped 2 processes that a killed `sluice up` had left." in said.stdout
        assert left.wait(PATIENCE_S) == -signal.SIGTERM
        wait_until(lambda: not is_running(state["serverPid"]))
        assert foreign.poll() is None
        assert "No cell is running" in command(tmp_path, "down").stdout
    finally:
        for process in (left, foreign):
            process.kill()
            process.wait()
        command(tmp_path, "down")
    assert not processes_of(tmp_path)


def _kill_an_up(directory: Path, *, detached: bool) -> Any:
    """Start a cell, kill its supervisor, wait for its services' end; returns what was in `up.json`."""
    arguments = ("--agents", "1", "--sync", "always")
    file = directory / ".sluice/up.json"
    if detached:
        assert command(directory, "up", "-d", *arguments).returncode == 0
        state = json.loads(file.read_text())
        os.kill(state["pid"], signal.SIGKILL)
    else:
        with foreground(directory, *arguments):
            state = json.loads(file.read_text())
    assert 'sync_interval: "always"' in (directory / ".sluice/nats/nats-server.conf").read_text()
    wait_until(lambda: not any("sluice.services." in line for line in processes_of(directory)))
    return state


def test_a_wrong_sync_interval_is_refused(tmp_path):
    """The server would not start with it."""
    said = command(tmp_path, "up", "-d", "--sync", "sometimes")
    assert said.returncode == 2
    assert "neither `always` nor an interval" in said.stderr


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
