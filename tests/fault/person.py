"""Somebody who answers for controllers of checks that are away, as `sluice check approve` does (AC9).

They approve what the controller would, so that it has nothing to take back when it returns.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from sluice.events.base import WorkloadKey
from sluice.events.codec import encode_message
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.kv import Bucket
from sluice.protocol.checks import CheckRequest, CheckVerdict
from sluice.protocol.dispatch import key_token
from sluice.protocol.subjects import verdict_suffix

from .check_controller import approves, controller_name
from .healing import UNAVAILABLE

LOOK_S = 0.5
_REQUESTS = msgspec.json.Decoder(CheckRequest)


@dataclass
class Person:
    """*away*: tells the checks whose controllers are away."""

    log: JetStreamLog
    away: Callable[[], list[str]]
    answered: int = 0

    async def answer_for_ever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for check in self.away():
                with contextlib.suppress(*UNAVAILABLE):
                    await self._answer(check)

    async def _answer(self, check: str) -> None:
        """Approve what is asked of a check now."""
        bucket = Bucket(self.log, "checks")
        for key in await bucket.keys(key_token(controller_name(check))):
            entry = await bucket.get(key)
            if entry is None:
                continue
            request = _REQUESTS.decode(entry.value)
            uid, job = request.workload.uid, request.workload.job
            if request.state != "Pending" or not approves(check, uid, job, request.attempt):
                continue
            workload = WorkloadKey(f"{request.workload.namespace}/{request.workload.name}")
            verdict = CheckVerdict(
                workload=workload, check=check, attempt=request.attempt, state="Ready", uid=uid
            )
            message_id = f"person-{uid}-{check}-{request.attempt}"
            payload = encode_message(
                message_id=message_id,
                source="fault-person",
                event_type="CheckVerdict",
                subject=workload,
                at=time.time_ns() // 1000,
                data=verdict,
            )
            ack = await self.log.append(verdict_suffix(request.controller), payload, msg_id=message_id)
            self.answered += not ack.duplicate
