"""The shell of `sluice replay shell`: event by event through a log, with the state beside it."""

import sys
from collections.abc import Callable

import click

from sluice.cli.cell.log_options import about_a_log, at_option, sequence_of
from sluice.cli.kit.durations import utc
from sluice.cli.kit.errors import CliError
from sluice.cli.kit.output import to_yaml
from sluice.cli.kit.state_tables import state_lines
from sluice.cli.kit.terminal import echo, style
from sluice.core.scheduler.state import SchedulerState
from sluice.log.fold import Fold
from sluice.replay.explain.executors import Executors
from sluice.replay.explain.why import Others, explain
from sluice.replay.explain.why_text import plain_words
from sluice.replay.history.stepper import Film, Frame, Line, Place
from sluice.replay.source.errors import UnknownNameError, UnknownWorkloadError
from sluice.replay.source.moments import MomentError
from sluice.replay.source.source import Source
from sluice.replay.source.suggest import did_you_mean
from sluice.replay.source.time_travel import RangeError, checks_at, is_long, scheduler_at, variants_at
from sluice.replay.views.describe import about, known_names, split_kind
from sluice.replay.views.overview import counts, of_scheduler, queues_of

from .why import happening_line

KEPT = 16
"""Scheduler states kept, by sequence."""

HELP = """\
  n [N], Enter    forward one event, or N          b [N]    back
  m [N]           forward one message, or N        mb [N]   back
  g SEQ|TIME      go to a sequence, or a time like 2026-01-06T14:03Z
  f [NAME]        next event about a job, workload or queue; fb [NAME]: the one before
  s [NAME]        state of everything, or of one thing
  w NAME          why a workload is pending here
  watch NAME      show it beside every event; unwatch NAME
  ? or help       this;   q: quit
Lines of state: + came with the event, ~ changed by it, - gone with it."""

_COLOURS = {"+": "green", "~": "yellow", "-": "red"}


class Shell:
    """One session; `run` reads commands until q, or the end of the input."""

    def __init__(self, source: Source, seq: int) -> None:
        self.source = source
        self.film = Film(source)
        self.place = Place(seq, 0)
        self._name = ""
        """What was looked for last."""
        self._schedulers: dict[int, Fold[SchedulerState]] = {}
        self._verbs: dict[str, Callable[[list[str]], None]] = {
            "n": lambda words: self._step(words, self.film.after),
            "b": lambda words: self._step(words, self.film.before),
            "m": lambda words: self._step(words, self._next_message),
            "mb": lambda words: self._step(words, self._last_message),
            "g": self._goto,
            "f": lambda words: self._find(words, back=False),
            "fb": lambda words: self._find(words, back=True),
            "s": self._state,
            "w": self._why,
            "watch": self._watch,
            "unwatch": self._unwatch,
            "?": lambda _: echo(HELP),
            "help": lambda _: echo(HELP),
        }

    def run(self) -> None:
        echo(f"{self.source.name}: sequences {self.source.first} to {self.source.end}. ? for help.")
        people = sys.stdin.isatty()
        if people:
            _edit_lines()
        self._show(self.film.at(self.place))
        while True:
            prompt = f"{self.place.seq}.{self.place.number + 1}> "
            try:
                line = input(prompt if people else "").strip()
            except EOFError:
                echo("")
                return
            except KeyboardInterrupt:
                echo("")
                continue
            if not people:
                # So that what was asked stands above its answer.
                echo(f"{prompt}{line}")
            words = line.split() or ["n"]
            if words[0] in ("q", "quit", "exit"):
                return
            self.command(words)

    def command(self, words: list[str]) -> None:
        """Do one command; errors are said and change nothing."""
        verb, rest = words[0], words[1:]
        if verb.isdigit() and not rest:
            verb, rest = "g", [verb]
        act = self._verbs.get(verb)
        try:
            if act is None:
                echo(f"no command {verb!r}.{did_you_mean(verb, self._verbs)} ? for help")
            else:
                act(rest)
        except UnknownWorkloadError as error:
            near = did_you_mean(error.name, [*error.known, *(n.partition("/")[2] for n in error.known)])
            echo(f"there is nothing called {error.name!r} here.{near}")
        except (CliError, MomentError, RangeError) as error:
            echo(str(error))
        except (ValueError, IndexError):
            echo("want a number or a name there; ? for help")
        except KeyboardInterrupt:
            echo("")

    # Moving

    def _step(self, words: list[str], on: Callable[[Place], Place]) -> None:
        place = self.place
        for _ in range(int(words[0]) if words else 1):
            further = on(place)
            if further == place:
                break
            place = further
        if place == self.place:
            echo("there is nothing further that way")
        else:
            self._show(self.film.at(place))

    def _next_message(self, place: Place) -> Place:
        return self.film.after(Place(place.seq, self.film.at(place).count - 1))

    def _last_message(self, place: Place) -> Place:
        return Place(self.film.before(Place(place.seq, 0)).seq, 0)

    def _goto(self, words: list[str]) -> None:
        self._show(self.film.at(Place(sequence_of(self.source, words[0]), 0)))

    def _find(self, words: list[str], *, back: bool) -> None:
        self._name = words[0] if words else self._name
        if not self._name:
            raise IndexError
        place = self.film.find(self.place, self._name, back=back)
        if place is None:
            echo(f"no event about {self._name} {'before' if back else 'after'} this one")
        else:
            self._show(self.film.at(place))

    # Looking

    def _show(self, frame: Frame) -> None:
        self.place = frame.place
        many = f"  (event {frame.place.number + 1} of {frame.count})" if frame.count > 1 else ""
        echo(happening_line(frame.happening, mark="▶") + many)
        for line in frame.lines:
            echo(style(_line(line), fg=_COLOURS.get(line.mark)))

    def _state(self, words: list[str]) -> None:
        if words:
            cell = self.film.cell(self.place)
            found: dict[str, dict[str, object]] = {}
            for kind, key, plain in about(cell, words[0]):
                found.setdefault(kind, {})[key] = plain
            if not found:
                raise UnknownNameError(split_kind(words[0])[1], known_names(cell))
            echo(to_yaml(found).rstrip())
            return
        fold = self._scheduler()
        if is_long(self.source):
            seen = of_scheduler(fold.state)
        else:
            seen = counts(self.film.cell(self.place)) | {"clusterQueues": queues_of(fold.state)}
        echo("\n".join(state_lines(seen, self.place.seq, utc(fold.at))))

    def _why(self, words: list[str]) -> None:
        fold = self._scheduler()
        seq = self.place.seq
        families, checks = variants_at(self.source, seq).state, checks_at(self.source, seq).state
        others = Others(families, checks, Executors(self.source, seq))
        report = explain(fold.state, words[0], seq, fold.at, others=others)
        echo("\n".join(plain_words(report)))

    def _watch(self, words: list[str]) -> None:
        cell = self.film.cell(self.place)
        if not about(cell, words[0]):
            raise UnknownNameError(words[0], known_names(cell))
        self.film.watch(words[0])
        self._show(self.film.at(self.place))

    def _unwatch(self, words: list[str]) -> None:
        self.film.unwatch(words[0])
        self._show(self.film.at(self.place))

    def _scheduler(self) -> Fold[SchedulerState]:
        fold = self._schedulers.get(self.place.seq)
        if fold is None:
            if len(self._schedulers) >= KEPT:
                del self._schedulers[next(iter(self._schedulers))]
            fold = self._schedulers[self.place.seq] = scheduler_at(self.source, self.place.seq)
        return fold


def _line(line: Line) -> str:
    kind, _, rest = line.name.partition(" ")
    key, _, below = rest.partition(" ")
    name = f"  {below}" if below else f"{kind} {key}"
    return f"  {line.mark} {name:<36} {line.text}"


def _edit_lines() -> None:
    """Let people edit what they type, and get back what they typed, where the terminal can."""
    try:
        import readline  # noqa: F401
    except ImportError:
        return


@click.command()
@at_option()
@about_a_log
def shell(source: Source, at: str | None) -> None:
    """Step through the log event by event, forward and back, with the state beside it.

    n and b step forward and back (n 10: ten), m and mb by messages, g goes to a sequence or time, f NAME to
    the next event about a job or queue; s shows the state, s NAME one thing, w NAME explains why; ? has all.
    Commands may come from a pipe, too.
    """
    Shell(source, sequence_of(source, at) if at else source.first).run()
