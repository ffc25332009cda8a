"""One pod as a process: its own session, one log file, ended as a whole."""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from sluice.local.process_start import start_time

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit codes of a command that cannot be started, as a shell has them."""


class PidFile(msgspec.Struct, frozen=True):
    """Which process a pod is. A pid alone could be anybody's by now; with its start time it is this one's."""

    pid: int
    started: float
    job: str
    uid: str
    attempt: int


@dataclass(slots=True)
class PodProcess:
    """A started process. Its exit code is negative when a signal ended it."""

    process: asyncio.subprocess.Process
    pid_file: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal(self, what: signal.Signals) -> None:
        """Signal all of its processes, unless the command has ended: then `wait` sees to the others."""
        if self.process.returncode is None:
            signal_group(self.pid, what)

    async def wait(self) -> int:
        """Wait until the command has ended, end what it left behind, and return its exit code."""
        code = await self.process.wait()
        signal_group(self.pid, signal.SIGKILL)
        self.pid_file.unlink(missing_ok=True)
        return code


async def start(
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    log_path: Path,
    pid_path: Path,
    owner: PidFile,
    restrain: Callable[[], None] | None = None,
) -> PodProcess | int:
    """Start a pod; returns the exit code of a command that cannot be started, and says why in its log.

    *restrain*: what its process does before the command.
    """
    with _appending(log_path) as output:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=env,
                cwd=cwd,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=restrain,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            output.write(f"cannot be started: {error}\n".encode())
            return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
    if started := start_time(process.pid):
        record = msgspec.structs.replace(owner, pid=process.pid, started=started)
        _write(pid_path, msgspec.json.encode(record))
    return PodProcess(process, pid_path)


def _appending(path: Path) -> IO[bytes]:
    return path.open("ab")


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def signal_group(pid: int, what: signal.Signals) -> None:
    """Signal all processes of the group that *pid* leads."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, what)
