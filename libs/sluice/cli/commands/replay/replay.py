"""`sluice replay`: state at any point, what changed, deciding again, other rules. Reads only."""

import click

from sluice.cli.kit.lazy_group import Lazy, LazyGroup

_LOOK, _DECIDE = "Look back", "Decide again"
_COMMANDS = {
    "state": Lazy("replay.state", _LOOK, "Show the whole cell, or one thing in it, as it was"),
    "diff": Lazy("replay.state", _LOOK, "Show what changed between two points"),
    "timeline": Lazy("replay.timeline", _LOOK, "Show all that happened to a job or queue, or draw it"),
    "traces": Lazy("replay.traces", _LOOK, "Make a trace of a job, or of all: OpenTelemetry, OTLP"),
    "shell": Lazy("replay.shell", _LOOK, "Step event by event, forward and back"),
    "index": Lazy("replay.state", _LOOK, "Store snapshots beside a log, so that looking is quick"),
    "verify": Lazy("replay.verify", _DECIDE, "Decide every commit again; find the first difference"),
    "bisect": Lazy("replay.verify", _DECIDE, "Find the first event that broke an invariant"),
    "what-if": Lazy("replay.what_if", _DECIDE, "Run the log's jobs under other rules, and compare"),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def replay() -> None:
    """Look at the past of a cell, or of an exported log, and at other pasts.

    All of it only reads: a running cell does not notice.
    """
