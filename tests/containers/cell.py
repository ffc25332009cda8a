"""One cell in containers: servers, the services' image, and what plugs into it from outside."""

import gc
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import docker
from docker.models.containers import Container
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.image import DockerImage
from testcontainers.core.network import Network

from sluice.local.processes import free_port
from sluice.log.contract import MAX_PAYLOAD
from tests.support.command import Said, sluice
from tests.support.system import ROOT

NATS, PYTHON = "nats:2.15", "python:3.13-slim"
DECIDING = ("scheduler", "slice-aggregator", "variant-controller", "admission-check")

# Its helper, which cleans up after a run that was killed, is an image more to be pulled.
testcontainers_config.ryuk_disabled = True


def why_not() -> str:
    """Return why there can be no containers here, '' if there can."""
    with warnings.catch_warnings():
        # The library leaves a socket open to an engine that is not there.
        warnings.simplefilter("ignore", ResourceWarning)
        if reason := _no_engine():
            gc.collect()
            return reason
    client = docker.from_env()
    try:
        for image in (NATS, PYTHON):
            try:
                client.images.get(image)
            except docker.errors.ImageNotFound:
                client.images.pull(image)
    except docker.errors.APIError as error:
        return f"{image} is not here and cannot be pulled (deploy/local-images/make makes it): {error}"
    finally:
        client.close()
    return ""


def _no_engine() -> str:
    try:
        docker.from_env(timeout=20).close()
    except docker.errors.DockerException as error:
        return f"no Docker engine answers: {error}"
    return ""


@contextmanager
def built() -> Iterator[str]:
    """Build the services' image, of wheels in deploy/wheels if there are any; yields its name."""
    offline = {"PIP_NO_INDEX": "1"} if list((ROOT / "deploy" / "wheels").glob("*.whl")) else {}
    with DockerImage(
        ROOT, tag="sluice:containers", dockerfile_path="deploy/Dockerfile", buildargs=offline, rm=True
    ) as image:
        yield str(image)


class Cell:
    """A network with *servers* NATS servers; `stack` ends everything."""

    def __init__(self, image: str, servers: int, stack: ExitStack) -> None:
        self.image, self._stack = image, stack
        self.network = stack.enter_context(Network())
        self._ports = [free_port(0) for _ in range(servers)]
        self.names = [f"n{number}" for number in range(servers)]
        self.url = ",".join(f"nats://127.0.0.1:{port}" for port in self._ports)
        """For whoever is outside."""
        self._inside = ",".join(f"nats://{name}:4222" for name in self.names)
        self.servers = [self._server(number) for number in range(servers)]

    def _server(self, number: int) -> Container:
        routes = ", ".join(f'"nats://{name}:6222"' for name in self.names)
        cluster = f'cluster {{ name: "c", listen: "0.0.0.0:6222", routes: [{routes}] }}'
        config = f"""
server_name: "{self.names[number]}"
max_payload: {MAX_PAYLOAD}
max_pending: {32 * MAX_PAYLOAD}
jetstream {{ store_dir: "/data" }}
{cluster if len(self.names) > 1 else ""}
"""
        return self._started(
            DockerContainer(NATS, command="--config /nats.conf")
            .with_copy_into_container(config.encode(), "/nats.conf")
            # Fixed: it stays the same when the container is started again.
            .with_bind_ports(4222, self._ports[number]),
            self.names[number],
        )

    def run(self, service: str, *, file: Path | None = None, **env: str) -> Container:
        """Start a service, or the program *file*, in the services' image."""
        words = "/program.py" if file else f"-m sluice.services.{service.replace('-', '_')}"
        container = DockerContainer(self.image, command=f"python {words}")
        if file is not None:
            container.with_copy_into_container(file.read_bytes(), "/program.py", 0o644)
        known = {"SLUICE_NATS_URL": self._inside, "SLUICE_REPLICAS": str(len(self.names))}
        return self._started(container.with_envs(**known, **env))

    def _started(self, container: DockerContainer, alias: str = "") -> Container:
        container.with_network(self.network)
        if alias:
            container.with_network_aliases(alias)
        return self._stack.enter_context(container).get_wrapped_container()

    def sluice(self, *words: str) -> Said:
        """Run the command outside of all containers."""
        return sluice("--server", self.url, *words)
