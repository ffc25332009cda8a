"""Whether every part of a cell answers."""

import contextlib
from dataclasses import dataclass
from typing import Any

from sluice.cli.cell.client import Api, Target, connect
from sluice.cli.cell.services import services
from sluice.cli.kit.errors import CliError, joined

from .supervisor import ARCHIVIST, CHECK_PREFIX, CONSOLE, Supervisor


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a cell; `detail` says what is missing."""

    name: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Health:
    """What was found out at one moment."""

    parts: tuple[Part, ...]

    @property
    def ok(self) -> bool:
        return all(part.ok for part in self.parts)

    def line(self) -> str:
        """Return one line: `server ok, api ok, scheduler ...`."""
        return "  ".join(f"{part.name} {'✓' if part.ok else '…'}" for part in self.parts)

    def problems(self) -> str:
        """Return what is not healthy, in words."""
        return joined([f"{part.name} ({part.detail})" for part in self.parts if not part.ok])


async def check(target: Target, supervisor: Supervisor) -> Health:
    """Ask the cell how it is, once; what does not answer is not healthy, and never an error."""
    wanted = list(dict.fromkeys(c.service for c in supervisor.children if c.service != CONSOLE))
    status: dict[str, Any] = {}
    found: list[dict[str, Any]] = []
    server = api = False
    with contextlib.suppress(CliError):
        async with connect(target) as connection:
            server = True
            status = await _status(connection)
            api = bool(status)
            found = await services(connection)
    parts = [Part("server", server, "does not answer")]
    for service in wanted:
        label = service.replace("_", "-")
        if service == "api":
            parts.append(Part(label, api, "does not answer"))
        elif service == "agent":
            want = sum(1 for child in supervisor.children if child.service == "agent")
            names = {child.label for child in supervisor.children if child.service == "agent"}
            have = sum(1 for agent in status.get("agents", ()) if _ready(agent, names))
            parts.append(Part(f"agents {have}/{want}", have >= want, "not seen yet"))
        elif service.startswith(CHECK_PREFIX) or service == ARCHIVIST:
            alive = any(child.alive for child in supervisor.children if child.service == service)
            parts.append(Part(label, alive, "does not run"))
        else:
            leader = any(entry.get("service") == label and entry.get("role") == "leader" for entry in found)
            parts.append(Part(label, leader, "has no leader yet"))
    return Health(tuple(parts))


def _ready(agent: dict[str, Any], names: set[str]) -> bool:
    return agent["metadata"]["name"] in names and agent["status"]["phase"] == "Ready"


async def _status(api: Api) -> dict[str, Any]:
    with contextlib.suppress(CliError):
        return await api.status()
    return {}
