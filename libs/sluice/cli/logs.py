"""`sluice logs`: what a job's processes printed, for jobs that agents of this machine ran."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from sluice.events.dispatch import key_token

from .errors import CliError
from .place import find
from .selectors import namespace_option

FOLLOW_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class PodLog:
    """One pod's output of one attempt."""

    pod: str
    attempt: int
    path: Path


@click.command()
@click.argument("job")
@click.argument("pod", required=False)
@namespace_option()
@click.option("--attempt", type=click.IntRange(1), help="Of which start of the job (default: the latest).")
@click.option("--tail", type=click.IntRange(0), help="Last lines only.")
@click.option("-f", "--follow", is_flag=True, help="Go on as more is printed, until Ctrl-C.")
def logs(
    job: str, pod: str | None, namespace: str, attempt: int | None, tail: int | None, follow: bool
) -> None:
    """Print what a job's pods printed. Pods are called PODSET-INDEX, as in main-0.

    \b
    Examples:
      sluice logs train
      sluice logs train main-1 --tail 20
      sluice logs train -f
    """
    name = job.removeprefix("job/")
    found = _find(namespace, name, attempt)
    if pod:
        found = [log for log in found if log.pod == pod]
    if not found:
        which = f" pod {pod!r} of" if pod else ""
        raise CliError(
            f"no output of{which} job {namespace}/{name} is on this machine",
            hint=f"It may not have run yet, or elsewhere: `sluice describe job {name}` says where.",
        )
    prefix = len(found) > 1
    offsets = [_print(log, 0, tail, prefix=prefix) for log in found]
    while follow:
        time.sleep(FOLLOW_EVERY_S)
        offsets = [_print(log, at, None, prefix=prefix) for log, at in zip(found, offsets, strict=True)]


def _find(namespace: str, job: str, attempt: int | None) -> Sequence[PodLog]:
    """Return the pods' logs of one attempt, the latest unless one is given."""
    place = find(Path.cwd())
    if place is None or not place.agents.is_dir():
        raise CliError("no agent's files here", hint="Logs are found from the directory of `sluice up`.")
    found = []
    for agent in sorted(place.agents.iterdir()):
        for directory in (agent / "agent" / key_token(namespace) / key_token(job)).glob("*"):
            if directory.name.isdigit():
                found += [
                    PodLog(path.stem, int(directory.name), path) for path in sorted(directory.glob("*.log"))
                ]
    wanted = max((log.attempt for log in found), default=0) if attempt is None else attempt
    return [log for log in found if log.attempt == wanted]


def _print(log: PodLog, offset: int, tail: int | None, *, prefix: bool) -> int:
    """Print a log from *offset* on; return where it ended."""
    try:
        with log.path.open("rb") as file:
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return offset
    lines = data.decode(errors="replace").splitlines()
    for line in lines if tail is None else lines[max(len(lines) - tail, 0) :]:
        click.echo(f"{click.style(log.pod, fg='cyan')} {line}" if prefix else line)
    sys.stdout.flush()
    return offset + len(data)
