"""The only writer of `config`: plans a request, commits, and tries again when another replica came first."""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from sluice.core.config.objects import Clock, Draft, plan_finalize
from sluice.core.config.plan import plan_apply, plan_delete, status
from sluice.core.step_size import Room
from sluice.events.base import Event, Micros
from sluice.events.commit import Step
from sluice.log.contract import Log
from sluice.log.errors import MessageTooLargeError, StaleSequenceError
from sluice.log.runtime.clock import LogTime, wall_clock
from sluice.log.writer import CommitWriter, Written
from sluice.protocol.query import ApplyRequest, ChangeAnswer, DeleteRequest, Result, Status
from sluice.readmodel.follower import Follower

ATTEMPTS = 50
"""How often a request may be overtaken by another replica's commit before it is given up."""

log = structlog.get_logger("sluice.api.changer")

Plan = Callable[[Draft], list[Result]]


class OvertakenError(Exception):
    """Other replicas kept committing first."""


class Changer:
    """Plans and commits, one request at a time; replicas are kept apart by the chain on `config`."""

    def __init__(
        self,
        target: Log,
        follower: Follower,
        *,
        instance: str = "",
        clock: Callable[[], Micros] = wall_clock,
    ) -> None:
        self.writer = CommitWriter(target, "config", instance=instance)
        self.follower = follower
        self._lock = asyncio.Lock()
        self._time = LogTime(clock)
        self._at: Micros = 0

    async def start(self) -> None:
        """Find where the chain ends."""
        await self.writer.find_head()

    async def apply(self, request: ApplyRequest) -> ChangeAnswer:
        """Create or change objects; each result stands for itself."""

        def plan(draft: Draft) -> list[Result]:
            return [plan_apply(draft, manifest, request.namespace) for manifest in request.objects]

        return await self._change(plan, dry_run=request.dry_run)

    async def delete(self, request: DeleteRequest) -> ChangeAnswer:
        """Delete objects, or mark them as terminating while they are in use."""
        usage = self.follower.world.view

        def plan(draft: Draft) -> list[Result]:
            return [plan_delete(draft, usage, reference, request.namespace) for reference in request.objects]

        return await self._change(plan, dry_run=request.dry_run)

    async def finalize(self) -> None:
        """Delete terminating objects whose last user has gone."""
        world = self.follower.world
        if not world.objects.terminating or not plan_finalize(world.objects, world.view, self._clock()):
            return

        def plan(draft: Draft) -> list[Result]:
            # Those that are left have their turn with the next entry of the log.
            draft.events += Room().part(plan_finalize(world.objects, world.view, self._clock()))
            return []

        await self._change(plan, dry_run=False)

    async def _change(self, plan: Plan, *, dry_run: bool) -> ChangeAnswer:
        world = self.follower.world
        async with self._lock:
            for _ in range(ATTEMPTS):
                await self.follower.at_least(self.writer.head)
                draft = Draft(world.objects, self._clock())
                results = plan(draft)
                if dry_run or not draft.events:
                    return ChangeAnswer(seq=world.seq, results=results)
                try:
                    seq = await self._commit(draft.events)
                except StaleSequenceError:
                    log.info("overtaken by another replica", head=self.writer.head)
                    await self.writer.find_head()
                    continue
                except MessageTooLargeError as error:
                    return ChangeAnswer(seq=world.seq, results=_too_large(results, error))
                # The answer's reader may ask at once for what was written.
                await self.follower.at_least(seq)
                return ChangeAnswer(seq=seq, results=results)
        raise OvertakenError(f"other replicas committed first {ATTEMPTS} times")

    async def _commit(self, events: Sequence[Event]) -> int:
        """Commit one step; returns the sequence."""
        written: list[Written] = []
        clock = self._clock()
        await self.writer.write([Step(upto=clock.upto, at=clock.at, events=tuple(events))], written.append)
        log.info("committed", events=len(events), upto=clock.upto, seq=written[-1].seq)
        return written[-1].seq

    def _clock(self) -> Clock:
        # Never going back, also when the machine's clock does.
        self._at = self._time.now(max(self._at, self.follower.world.at))
        return Clock(at=self._at, upto=self.follower.world.seq)


def _too_large(results: Sequence[Result], error: MessageTooLargeError) -> list[Result]:
    text = f"the request makes {error.size} bytes, the server takes at most {error.limit}"
    refused: Status = status("BadRequest", f"{text}; apply fewer objects at once")
    return [
        result
        if result.status is not None
        else Result(
            outcome="refused", kind=result.kind, name=result.name, namespace=result.namespace, status=refused
        )
        for result in results
    ]
