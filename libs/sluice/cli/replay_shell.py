"""The shell of `sluice replay shell`: forward and back through a log, with the state beside it."""

import click

from sluice.core.state import SchedulerState
from sluice.log.fold import Fold
from sluice.replay.causes import happenings
from sluice.replay.source import Source
from sluice.replay.states import scheduler_at
from sluice.replay.summary import workload_summary
from sluice.replay.tables import state_lines
from sluice.replay.why import UnknownWorkloadError, explain, find
from sluice.replay.why_text import plain_words

from .output import to_yaml
from .replay_options import clock
from .suggest import did_you_mean
from .why import happening_line

KEPT = 64
"""States kept for stepping back at once."""


class Shell:
    """One session; `run` reads commands until q."""

    def __init__(self, source: Source, seq: int) -> None:
        self.source, self.seq = source, seq
        self._states: dict[int, Fold[SchedulerState]] = {}

    def run(self) -> None:
        click.echo(f"{self.source.name}: {self.source.first} to {self.source.end}. ? for help.")
        self._show()
        while True:
            try:
                line = input(f"{self.seq}> ").split()
            except EOFError:
                click.echo("")
                return
            if line and line[0] in ("q", "quit", "exit"):
                return
            self.command(line or ["n"])

    def command(self, words: list[str]) -> None:
        """Do one command; errors are said and change nothing."""
        verb, rest = words[0], words[1:]
        try:
            match verb:
                case "n" | "b":
                    count = int(rest[0]) if rest else 1
                    self._go(self.seq + (count if verb == "n" else -count))
                case "g":
                    self._go(int(rest[0]))
                case "s":
                    self._state(rest)
                case "w":
                    fold = self._fold()
                    click.echo("\n".join(plain_words(explain(fold.state, rest[0], self.seq, fold.at))))
                case _:
                    click.echo("n [N] forward, b [N] back, g SEQ go, s [NAME] state, w NAME why, q quit")
        except (ValueError, IndexError):
            click.echo("want a number or a name there; ? for help")
        except UnknownWorkloadError as error:
            click.echo(f"no workload {error.name!r} here.{did_you_mean(error.name, error.known)}")

    def _go(self, seq: int) -> None:
        self.seq = max(self.source.first, min(self.source.end, seq))
        self._show()

    def _show(self) -> None:
        for entries in self.source.read(self.seq, self.seq):
            for happening in happenings(entries):
                click.echo(happening_line(happening))

    def _state(self, rest: list[str]) -> None:
        fold = self._fold()
        if not rest:
            click.echo("\n".join(state_lines(fold.state, self.seq, clock(fold.at))))
            return
        workload = find(fold.state, rest[0])
        click.echo(to_yaml({workload.key: workload_summary(workload)}).rstrip())

    def _fold(self) -> Fold[SchedulerState]:
        fold = self._states.get(self.seq)
        if fold is None:
            if len(self._states) >= KEPT:
                del self._states[next(iter(self._states))]
            fold = self._states[self.seq] = scheduler_at(self.source, self.seq)
        return fold
