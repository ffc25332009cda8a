"""Controllers of admission checks: they answer what they like when they like, are silent, or away."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluice.events.base import Micros
from sluice.events.check_protocol import CheckRequest
from sluice.log.subjects import verdict_suffix

from .buckets import Watcher
from .choices import Choices, Weights

if TYPE_CHECKING:
    from .cell import Cell

TTL: Micros = 5_000_000
ANSWERS = ("Ready", "Retry", "Rejected", "Pending", "PreemptionRequired", "Stale", "Nobody")
_USUAL = Weights((80, 4, 1, 5, 10, 0, 0))
_RARE = Weights((50, 14, 8, 10, 10, 5, 3))
_LATER = Weights((70, 20, 10))


@dataclass
class Controller:
    cell: "Cell"
    name: str
    alive: bool = True
    since: Micros = 0
    asked: dict[str, CheckRequest] = field(default_factory=dict)
    watcher: Watcher[CheckRequest] = field(init=False)

    def __post_init__(self) -> None:
        self.watcher = Watcher(self.cell.requests)

    @property
    def beating(self) -> bool:
        return self.alive or self.cell.now - self.since < TTL

    def leave(self) -> None:
        self.alive = False
        self.since = self.cell.now
        self.asked.clear()

    def come(self) -> None:
        self.alive = True
        self.watcher = Watcher(self.cell.requests)

    def follow(self, most: int) -> bool:
        watcher = self.watcher
        if not watcher.behind:
            return False
        anew = watcher.lost or self.cell.gap()
        changes = watcher.begin_anew() if anew else watcher.take(most)
        if anew:
            self.asked.clear()
        for key, request in changes:
            if not key.startswith(f"{self.name}."):
                continue
            if request is None:
                self.asked.pop(key, None)
            else:
                self.asked[key] = request
        return True

    @property
    def open(self) -> list[CheckRequest]:
        return [request for request in self.asked.values() if request.state == "Pending"]

    def answer(self, choices: Choices, *, calm: bool) -> bool:
        """Give one verdict."""
        waiting = self.open
        if waiting:
            request = choices.pick(waiting)
            if calm:
                self.say(request, "PreemptionRequired" if request.preemptions_pending else "Ready")
                return True
            odd = self.cell.on.rare_verdicts
            answer = ANSWERS[choices.weighted(_RARE if odd else _USUAL)]
            delay = choices.pick((0, 1, 30)) if answer == "Retry" else 0
            self.say(request, answer, delay)
            return True
        if calm or not self.asked or not self.cell.on.rare_verdicts or not choices.chance(0.1):
            return False
        request = choices.pick(list(self.asked.values()))
        self.say(request, ("Ready", "Retry", "Rejected")[choices.weighted(_LATER)], 1)
        return True

    def say(self, request: CheckRequest, answer: str, delay: int = 0) -> None:
        workload = request.workload
        data: dict[str, Any] = {
            "workload": f"{workload.namespace}/{workload.name}",
            "check": request.check,
            "attempt": request.attempt,
            "state": answer,
        }
        match answer:
            case "PreemptionRequired":
                data |= {"state": "Pending", "reason": answer}
            case "Retry" if delay:
                data["requeueAfterSeconds"] = delay
            case "Stale":
                data |= {"state": "Ready", "attempt": request.attempt - 1}
            case "Nobody":
                data |= {"state": "Ready", "workload": "default/nobody"}
        self.cell.message(verdict_suffix(self.name), "CheckVerdict", data, source=self.name)


__all__ = ["Controller"]
