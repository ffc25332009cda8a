"""A history in words, and as a golden log that `sluice replay` shows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from sluice.events.base import Event
from sluice.events.config import ObjectApplied
from sluice.events.scheduler import TreesSettled
from sluice.events.slices import WorkloadCreated
from sluice.events.variants import VariantCreated
from sluice.log.contract import Entry
from sluice.replay.source import log_file

from .log import START, as_bytes, steps_of
from .run import Run

WIDTH = 240


def story(run: Run) -> Iterator[str]:
    """Tell what happened, one line per event, with the objects of the world first."""
    for (kind, name), found in run.actions.grammar.objects.items():
        if (kind, name) not in run.without:
            yield _short(f"{kind} {name}: {found.get('spec', found.get('value'))}")
    for entry in run.cell.log.entries:
        yield from _entry(entry)
    for replica in run.cell.replicas:
        said = [type(event).__name__ for step in replica.machine.pending for event in step.events][-8:]
        role = "leads" if replica.leading else "stands by"
        lag = len(replica.service.entries) - replica.cursor
        more = f", not committed: {', '.join(said)}" if said else ""
        away = "" if replica.able else ", away"
        yield f"{replica.writer}/{replica.number} {role}{away}, {lag} behind{more}"
    for proc in run.cell.truth.all():
        yield f"runs: {proc}{' (declared lost)' if proc.lost else ''}"


def _entry(entry: Entry) -> Iterator[str]:
    seconds = (entry.at - START) / 1e6
    if "." in entry.suffix:
        yield _short(f"{entry.seq:>5} {seconds:9.2f} {entry.suffix}: {_message(entry.payload)}")
        return
    for step in steps_of(entry):
        for event in step.events:
            if not isinstance(event, TreesSettled):
                at = (step.at - START) / 1e6
                yield _short(f"{entry.seq:>5} {at:9.2f} {entry.suffix} <{step.upto}: {_event(event)}")


def _message(payload: bytes) -> str:
    try:
        found = msgspec.json.decode(payload)
        return f"{found['type']} {found.get('data')}"
    except (msgspec.DecodeError, KeyError):
        return repr(payload)


def _event(event: Event) -> str:
    if isinstance(event, ObjectApplied):
        found: Any = msgspec.json.decode(event.object)
        return f"ObjectApplied {event.kind} {event.name}: {found.get('spec', found.get('value'))}"
    if isinstance(event, WorkloadCreated | VariantCreated):
        record = event.workload
        pods = ", ".join(f"{p.count} {p.name} {p.requests}" for p in record.pod_sets)
        return (
            f"{type(event).__name__} {record.key} in {record.queue_name}: {pods}, priority {record.priority}"
        )
    plain: Any = msgspec.to_builtins(event, enc_hook=repr)
    plain.pop("type", None)
    return (
        f"{type(event).__name__} {', '.join(f'{k}={v}' for k, v in plain.items() if v not in ('', None, []))}"
    )


def _short(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


def golden(run: Run, path: Path) -> None:
    """Write the log as an exported one."""
    with path.open("wb") as file:
        log_file.write(
            file,
            log_file.Header(source=f"simulation, seed {run.seed}"),
            [list(as_bytes(run.cell.log.entries))],
        )


__all__ = ["golden", "story"]
