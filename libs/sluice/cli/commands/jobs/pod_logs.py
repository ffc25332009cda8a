"""Finds and reads what the pods of a job printed, in the directories of agents on this machine."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click

from sluice.cli.kit.errors import CliError
from sluice.local.cell_directory import find
from sluice.protocol.dispatch import key_token

CHUNK = 1 << 20


@dataclass(slots=True)
class PodLog:
    """One pod's output of one attempt; `offset` is how far it was read."""

    pod: str
    path: Path
    offset: int = 0
    partial: bytes = b""
    """The beginning of a line whose end is still to come."""

    def lines(self, *, final: bool = False) -> Iterator[str]:
        """Yield the whole lines that came since; with *final* also a last one without an end."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                while chunk := file.read(CHUNK):
                    self.offset += len(chunk)
                    *whole, self.partial = (self.partial + chunk).split(b"\n")
                    for line in whole:
                        yield line.decode(errors="replace").rstrip("\r")
        except FileNotFoundError:
            return
        if final and self.partial:
            line, self.partial = self.partial, b""
            yield line.decode(errors="replace")

    def skip_to_last(self, count: int) -> None:
        """Go on at the last *count* lines."""
        self.offset = size = self.path.stat().st_size
        if count == 0:
            return
        seen = 0
        with self.path.open("rb") as file:
            end = size
            while end > 0:
                begin = max(0, end - CHUNK)
                file.seek(begin)
                chunk = file.read(end - begin)
                # A line break at the very end closes the last line; it does not begin another.
                at = len(chunk) - (end == size)
                while (at := chunk.rfind(b"\n", 0, at)) >= 0:
                    seen += 1
                    if seen == count:
                        self.offset = begin + at + 1
                        return
                end = begin
        self.offset = 0


@dataclass(slots=True)
class JobLogs:
    """The output of one job: of its latest attempt, and of those that follow while it is read.

    `uid` names the job's incarnation; empty means the latest that ran here. `pod` keeps that one only.
    """

    agents: Path
    namespace: str
    job: str
    uid: str = ""
    pod: str = ""
    attempt: int = 0
    label: str = ""
    """Stands before the pod's name; without it, the pod of a single one is not named."""
    logs: dict[Path, PodLog] = field(default_factory=dict)

    def attempts(self) -> dict[int, list[Path]]:
        """Return the directories of each attempt of the incarnation; an attempt may have several agents."""
        found: dict[str, tuple[float, dict[int, list[Path]]]] = {}
        for owner in self.agents.glob(f"*/agent/{key_token(self.namespace)}/{key_token(self.job)}/*/uid"):
            if not owner.parent.name.isdigit():
                continue
            try:
                uid, written = owner.read_text(), owner.stat().st_mtime
            except FileNotFoundError:
                continue
            newest, attempts = found.get(uid, (0.0, {}))
            attempts.setdefault(int(owner.parent.name), []).append(owner.parent)
            found[uid] = (max(newest, written), attempts)
        if self.uid:
            return found.get(self.uid, (0.0, {}))[1]
        return max(found.values(), key=lambda each: each[0])[1] if found else {}

    def refresh(self) -> None:
        """Look for new pods, and for a later attempt."""
        attempts = self.attempts()
        if not attempts:
            return
        attempt = self.attempt or max(attempts)
        for directory in attempts.get(attempt, ()):
            for path in sorted(directory.glob("*.log")):
                if path not in self.logs and (not self.pod or path.stem == self.pod):
                    self.logs[path] = PodLog(path.stem, path)

    def print_new(self, *, final: bool = False) -> None:
        """Print what has come since the last time."""
        named = bool(self.label) or len({log.pod for log in self.logs.values()}) > 1
        for log in self.logs.values():
            name = "/".join(part for part in (self.label, log.pod) if part)
            for line in log.lines(final=final):
                click.echo(f"{click.style(name, fg='cyan')} {line}" if named else line)


def agents_directory() -> Path:
    """Return where the agents of the cell here keep their files.

    Raises:
        CliError: no agent has run here.
    """
    place = find(Path.cwd())
    if place is None or not place.agents.is_dir():
        raise CliError("no agent's files here", hint="Logs are found from the directory of `sluice up`.")
    return place.agents
