"""Shows a run as it goes: a live screen on a terminal, plain lines elsewhere."""

import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sluice.api.quantity import format_value
from sluice.cli.kit.columns import dig, job_status, name, usage_cells
from sluice.cli.kit.durations import precise
from sluice.cli.kit.table import bar
from sluice.cli.kit.terminal import echo
from sluice.protocol.query import Object

PLAIN_EVERY_S = 2.0
ROWS = 14


class View(Protocol):
    """What the demo tells of itself."""

    def step(self, text: str) -> None:
        """A phase began."""

    def happened(self, text: str) -> None:
        """Something worth a line."""

    def update(self, jobs: Sequence[Object], queues: Sequence[Object], planned: int) -> None:
        """The state now."""

    def close(self) -> None:
        """Nothing more comes."""


def make() -> View:
    """Return the view that fits the standard output."""
    return LiveView() if sys.stdout.isatty() else PlainView()


def counts(jobs: Sequence[Object]) -> str:
    """Return how many jobs are where, in the order of a job's life."""
    found = Counter(job_status(job) for job in jobs)
    order = ("Submitted", "Queued", "QuotaReserved", "Admitted", "Running", "Stopping", "Succeeded", "Failed")
    return ", ".join(f"{found[phase]} {phase.lower()}" for phase in order if found[phase])


def uses(queue: Object) -> str:
    """Return a queue's use of cpu: `vision 6/4 (2 borrowed)`."""
    used = nominal = borrowed = 0
    for cell in usage_cells(queue):
        if cell.resource == "cpu":
            used, nominal, borrowed = used + cell.used, nominal + cell.nominal, borrowed + cell.borrowed
    more = f" ({format_value('cpu', borrowed)} borrowed)" if borrowed else ""
    return f"{name(queue)} {format_value('cpu', used)}/{format_value('cpu', nominal)} cpu{more}"


class PlainView:
    """A line for each thing that happens, and one for the state every two seconds."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.shown = 0.0

    def step(self, text: str) -> None:
        echo(f"[{time.monotonic() - self.started:5.1f}s] {text}")
        sys.stdout.flush()

    def happened(self, text: str) -> None:
        self.step(f"  {text}")

    def update(self, jobs: Sequence[Object], queues: Sequence[Object], planned: int) -> None:
        now = time.monotonic()
        if now - self.shown < PLAIN_EVERY_S or not jobs:
            return
        self.shown = now
        self.step(
            f"{len(jobs)}/{planned} jobs: {counts(jobs)} | {'; '.join(uses(queue) for queue in queues)}"
        )

    def close(self) -> None:
        """Nothing is left open."""


class LiveView:
    """Queues with usage bars, the jobs that matter now, and what happened last."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.title = "starting"
        self.recent: deque[str] = deque(maxlen=6)
        self.console = Console()
        self.live = Live(console=self.console, refresh_per_second=8, transient=True)
        self.live.start()

    def step(self, text: str) -> None:
        self.title = text
        self.console.print(Text(f"[{time.monotonic() - self.started:5.1f}s] {text}"))

    def happened(self, text: str) -> None:
        self.recent.append(f"{time.monotonic() - self.started:5.1f}s  {text}")

    def update(self, jobs: Sequence[Object], queues: Sequence[Object], planned: int) -> None:
        parts = [
            Panel(_queues(queues), title="queues (█ own ▓ borrowed ░ free)", title_align="left"),
            Panel(_jobs(jobs), title=f"jobs: {counts(jobs)}", title_align="left"),
            Panel(Text("\n".join(self.recent) or "nothing yet"), title="happened", title_align="left"),
        ]
        head = Text(
            f"{precise(time.monotonic() - self.started)}  {len(jobs)}/{planned} jobs submitted", style="bold"
        )
        self.live.update(Group(head, *parts))

    def close(self) -> None:
        self.live.stop()


def _queues(queues: Sequence[Object]) -> Table:
    table = Table.grid(padding=(0, 2))
    for queue in queues:
        cells = [cell for cell in usage_cells(queue) if cell.resource == "cpu"]
        texts = [
            f"{cell.flavor} [cyan]{bar(cell.used, cell.nominal, cells=8)}[/] {cell.share}" for cell in cells
        ]
        waiting = dig(queue, "status", "pendingWorkloads", default=0)
        table.add_row(f"[bold]{name(queue)}[/]", *texts, f"{waiting} waiting")
    return table


_STYLE = {"Running": "green", "Admitted": "green", "Stopping": "yellow", "Failed": "red", "Queued": "yellow"}


def _jobs(jobs: Sequence[Object]) -> Table:
    table = Table.grid(padding=(0, 2))
    rank = {"Stopping": 0, "Running": 1, "Admitted": 1, "QuotaReserved": 1, "Queued": 2, "Submitted": 3}
    alive = [job for job in jobs if job_status(job) in rank]
    alive.sort(
        key=lambda job: (
            rank[job_status(job)],
            int(dig(job, "status", "queuePosition", default=0)),
            name(job),
        )
    )
    for job in alive[:ROWS]:
        phase = job_status(job)
        place = dig(job, "status", "queuePosition", default="")
        table.add_row(
            name(job),
            str(dig(job, "status", "queue")),
            f"[{_STYLE.get(phase, 'white')}]{phase}[/]" + (f" #{place}" if place else ""),
            ",".join(dig(job, "status", "flavors", default=())),
            f"priority {dig(job, 'status', 'priority', default=0)}",
            str(dig(job, "status", "reason")),
        )
    if len(alive) > ROWS:
        table.add_row(f"... and {len(alive) - ROWS} more", "", "", "", "", "")
    return table
