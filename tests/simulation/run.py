"""One run: a seed, so many steps, and what came of them."""

import logging
import time
from dataclasses import dataclass, field

import structlog

from sluice.core import step_size
from sluice.log.fold import FoldError

from . import reading
from .actions import Actions, prepare
from .calm import Calm, check_waiting
from .cell import Cell
from .choices import Choices, Steps
from .controllers import check_settled_controllers
from .replica import RoundError
from .scenes import LENGTHS, SCENES, scene_of
from .settled import check_settled
from .stage import Stage
from .swarm import features
from .watchman import Broken

ENCODED_EVERY = 20
"""Every so many seeds everything is written and read as bytes."""
LIMITED_EVERY = 8
"""Every so many seeds have limit ranges; the others are what they were before there were any."""
SILENT_EVERY = 8
"""Every so many seeds, of those without a scene, have an executor that is silent."""
UNDECLARED_EVERY = 8
"""Every so many seeds have jobs that ask for what no queue declares."""
SMALL_EVERY, SMALL = 16, 1500
"""Every so many seeds no step has more bytes of events than this, but for what cannot be split."""


def quiet() -> None:
    """Let nobody log: what runs here is wrong in many ways, all the time."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


@dataclass
class Outcome:
    seed: int
    steps: int = 0
    jobs: int = 0
    messages: int = 0
    attempts: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    actions: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    invariant: str = ""
    """Which one broke, '' if none did."""
    text: str = ""
    at: int = 0
    """In which step."""
    choices: Steps = field(default_factory=list)
    error: BaseException | None = None
    run: "Run | None" = None

    def __str__(self) -> str:
        if not self.invariant:
            return f"seed {self.seed}: {self.steps} steps, {self.jobs} jobs, no violation"
        return f"seed {self.seed}: {self.invariant} in step {self.at}: {self.text}"


@dataclass
class Run:
    """A run in the making; `play` goes to its end or to the first violation."""

    seed: int
    steps: int
    script: Steps | None = None
    encoded: bool | None = None
    liveness: bool = True
    """Whether the cell must come to rest in the end."""
    without: frozenset[tuple[str, str]] = frozenset()
    """(kind, name) of objects that the world does not begin with."""
    cell: Cell = field(init=False)
    actions: Actions = field(init=False)

    def play(self) -> Outcome:
        """Play it, its deciders in small steps if the seed says so."""
        most = step_size.MOST
        if self.seed % SMALL_EVERY == SMALL_EVERY - 4:
            step_size.MOST = SMALL
        try:
            if self._encoded:
                return self._whole()
            with reading.shared():
                return self._whole()
        finally:
            step_size.MOST = most

    @property
    def _encoded(self) -> bool:
        return self.seed % ENCODED_EVERY == 0 if self.encoded is None else self.encoded

    def _whole(self) -> Outcome:
        outcome = Outcome(self.seed, run=self)
        began = time.process_time()
        choices = Choices(self.seed, self.script)
        step = 0
        try:
            choices.step()
            on = features(choices)
            on.limit_ranges = self.seed % LIMITED_EVERY == LIMITED_EVERY - 1
            on.undeclared = self.seed % UNDECLARED_EVERY == UNDECLARED_EVERY - 3
            scene = SCENES.get(scene_of(self.seed))
            on.silent_executors = scene is None and self.seed % SILENT_EVERY == SILENT_EVERY - 5
            for name in scene.on if scene is not None else ():
                setattr(on, name, True)
            self.cell = Cell(choices, on, self._encoded)
            self.actions = prepare(self.cell, self.without, scene.world if scene is not None else None)
            if scene is not None:
                scene.play(Stage(self.actions))
                self.steps = min(self.steps, choices.pick(LENGTHS))
            step = self._play(choices)
            if self.liveness:
                self._come_to_rest()
        except Broken as error:
            outcome.invariant, outcome.text, outcome.error = error.invariant, error.text, error
        except RoundError as error:
            outcome.invariant, outcome.text, outcome.error = "settles", str(error), error
        except FoldError as error:
            outcome.invariant, outcome.text, outcome.error = "no-exception", str(error), error
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            outcome.invariant, outcome.text, outcome.error = "no-exception", text, error
        outcome.at = len(choices.recorded) - 1
        outcome.choices = choices.recorded
        outcome.seconds = time.process_time() - began
        self._sum_up(outcome, step)
        return outcome

    def _come_to_rest(self) -> None:
        cell = self.cell
        calm = Calm(cell, self.actions)
        calm.run()
        cell.stats.actions["calm"] = calm.steps
        check_settled(cell, self.actions.queries)
        check_settled_controllers(cell)
        check_waiting(cell)

    def _sum_up(self, outcome: Outcome, step: int) -> None:
        cell = getattr(self, "cell", None)
        if cell is None:
            return
        outcome.steps = step or cell.stats.steps
        outcome.jobs, outcome.faults, outcome.actions = cell.stats.jobs, cell.stats.faults, cell.stats.actions
        outcome.messages, outcome.attempts = cell.log.end, cell.truth.started

    def _play(self, choices: Choices) -> int:
        cell, actions, watchman = self.cell, self.actions, self.cell.watchman
        stats, done, idle = cell.stats.actions, 0, 0
        changed = cell.truth
        while done < self.steps and not choices.exhausted:
            choices.step()
            name = actions.next()
            if changed.changed:
                watchman.ran()
            if not done & 3:
                watchman.rested()
            if not name:
                choices.recorded.pop()
                idle += 1
                if idle > 2000:
                    break
                continue
            idle = 0
            done += 1
            stats[name] = stats.get(name, 0) + 1
            cell.stats.steps = done
        return done


__all__ = ["Outcome", "Run", "quiet"]
