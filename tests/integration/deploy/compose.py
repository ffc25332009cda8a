"""Runs the top-level compose file under a name and a port of the test's own."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BASE_IMAGES = ("python:3.13-slim", "nats:2.15")


def why_not() -> str:
    """Return why compose cannot run here, '' if it can."""
    if shutil.which("docker") is None:
        return "there is no docker command"
    info = _run(["docker", "info", "--format", "{{.ServerVersion}}"])
    if info.returncode or not info.stdout.strip():
        return f"no Docker engine answers: {info.stderr.strip().splitlines()[-1:]}"
    if not compose_command():
        return "neither `docker compose` nor `docker-compose` works"
    for image in BASE_IMAGES:
        if (
            _run(["docker", "image", "inspect", image]).returncode
            and _run(["docker", "pull", image]).returncode
        ):
            return f"{image} is not here and cannot be pulled; `sh deploy/local-images/make` makes it"
    return ""


def compose_command() -> list[str]:
    """Return the command of whichever compose there is."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) and not _run([*command, "version"]).returncode:
            return command
    return []


def _run(
    command: Sequence[str], env: Mapping[str, str] | None = None, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env=None if env is None else dict(env),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
    )


@dataclass
class Compose:
    """One project, with keys in a folder of its own."""

    name: str
    auth: Path
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.env = {
            **os.environ,
            "COMPOSE_PROJECT_NAME": self.name,
            "SLUICE_PORT": "0",
            "SLUICE_IMAGE": f"sluice:{self.name}",
            "SLUICE_AUTH": str(self.auth),
            # Said here, nothing is written into the checkout.
            "SLUICE_USER": f"{os.getuid()}:{os.getgid()}" if os.getuid() else "10001:10001",
        }
        if list((ROOT / "deploy" / "wheels").glob("*.whl")):
            self.env["PIP_NO_INDEX"] = "1"

    def new_keys(self) -> None:
        """Do what users do once."""
        result = _run(["sh", "deploy/new-keys"], self.env)
        assert result.returncode == 0, result.stderr

    def __call__(self, *arguments: str, timeout_s: float = 120) -> str:
        """Run one compose command and return what it prints.

        Raises:
            AssertionError: it failed; quotes it.
        """
        result = _run([*compose_command(), *arguments], self.env, timeout_s)
        assert result.returncode == 0, f"compose {' '.join(arguments)}:\n{result.stdout}{result.stderr}"
        return result.stdout

    def rotate(self, user: str) -> None:
        """Give a user another key, and let the old one count no more."""
        for words in (("rotate", user), ("revoke", user, "--old")):
            self("run", "--rm", "-T", "auth", *words)
            self("kill", "-s", "HUP", "nats")

    def sluice(self, *arguments: str) -> str:
        """Run the `sluice` command in the project."""
        return self("run", "--rm", "-T", "sluice", *arguments)

    def status(self) -> list[dict[str, object]]:
        """Return what the services say of themselves."""
        found: list[dict[str, object]] = json.loads(self.sluice("status", "-o", "json"))["services"]
        return found

    def containers(self, service: str) -> list[str]:
        """Return the containers of a service that run."""
        return self("ps", "-q", service).split()

    def leader(self, service: str) -> str:
        """Return the container that leads."""
        for container in self.containers(service):
            probe = _run(["docker", "exec", container, "python", "-m", "sluice.log.runtime.healthcheck"])
            if ": leader" in probe.stdout:
                return container
        raise AssertionError(f"no {service} leads")

    def health(self, container: str) -> str:
        """Return the engine's word: starting, healthy or unhealthy."""
        return _run(["docker", "inspect", "-f", "{{.State.Health.Status}}", container]).stdout.strip()

    def started(self, container: str) -> str:
        """Return when it was started, for the last time."""
        return _run(["docker", "inspect", "-f", "{{.State.StartedAt}}", container]).stdout.strip()

    def kill(self, container: str) -> None:
        assert not _run(["docker", "kill", container]).returncode

    def remove(self) -> None:
        """Remove containers, networks, volumes and the image."""
        self("down", "-v", "--remove-orphans", "-t", "5")
        _run(["docker", "image", "rm", f"sluice:{self.name}"])
