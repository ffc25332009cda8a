"""Answers of the controllers of admission checks, learnt from a log: what, and how long after the request.

In another run workloads have other names and are asked about at other times, so answers are kept per job
(or variant), check and attempt, relative to the request.
"""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.events.base import Event, Micros, WorkloadKey
from sluice.events.checks import ChecksRequested
from sluice.events.codec import decode_message, encode_message
from sluice.events.slices import WorkloadCreated, WorkloadRecord
from sluice.events.variants import VariantCreated
from sluice.log.contract import Entry

_RECORDS = msgspec.json.Decoder(WorkloadRecord)


@dataclass(slots=True)
class Answer:
    """One verdict, so long after the request."""

    after_us: int
    suffix: str
    data: dict[str, Any]
    seq: int
    at: Micros = 0
    """When it came in the log."""

    def payload(self, workload: WorkloadKey, attempt: int) -> bytes:
        """Return it as the verdict on a workload of another run."""
        said = {**self.data, "workload": workload, "attempt": attempt}
        said.pop("uid", None)
        return encode_message(
            message_id=f"{workload}-{self.data['check']}-{attempt}-{self.seq}",
            source="what-if",
            event_type="CheckVerdict",
            subject=workload,
            at=0,
            data=said,
        )


@dataclass
class Names:
    """What people call a workload: its job, and which variant of it; the same in every run."""

    _of: dict[WorkloadKey, str] = field(default_factory=dict)
    _unread: list[msgspec.Raw] = field(default_factory=list)

    def made(self, workload: msgspec.Raw) -> None:
        """Hear of a workload that was created; it is read when somebody asks for names."""
        self._unread.append(workload)

    def hear(self, event: Event) -> None:
        if isinstance(event, WorkloadCreated) and event.workload.job is not None:
            self._of[event.workload.key] = event.workload.job.key
        elif isinstance(event, VariantCreated) and event.workload.parent is not None:
            self._of[event.workload.key] = f"{self(event.workload.parent)}[{event.variant}]"

    def __call__(self, key: WorkloadKey) -> str:
        if self._unread:
            unread, self._unread = self._unread, []
            for workload in unread:
                record = _RECORDS.decode(workload)
                if record.job is not None:
                    self._of[record.key] = record.job.key
        return self._of.get(key, key)


@dataclass
class Verdicts:
    """`learn` and `hear` take a log in order; `of` says what would be answered in another run."""

    names: Names = field(default_factory=Names)
    answers: dict[tuple[str, str], dict[int, list[Answer]]] = field(default_factory=dict)
    """(job or variant, check) -> attempt -> verdicts."""
    _asked: dict[tuple[str, str], tuple[int, Micros]] = field(default_factory=dict)
    _typical: dict[str, Answer | None] = field(default_factory=dict)

    def learn(self, event: Event, at: Micros) -> None:
        """Hear of an event of any service."""
        self.names.hear(event)
        if isinstance(event, ChecksRequested):
            for check in event.checks:
                asked = self._asked.get((event.workload, check))
                if asked is None or asked[0] != event.attempt:
                    self._asked[event.workload, check] = (event.attempt, at)

    def heard(self, entry: Entry) -> bool:
        """Learn from a verdict; False if it is none, or cannot be read."""
        if not entry.suffix.startswith("verdict."):
            return False
        message = decode_message(entry.payload)
        if isinstance(message, tuple):
            return False
        try:
            data = msgspec.json.decode(message.data)
            workload, check, attempt = data["workload"], data["check"], data["attempt"]
            asked = self._asked.get((workload, check))
        except (*UNREADABLE, KeyError, TypeError):
            return False
        if asked is not None and asked[0] == attempt:
            answers = self.answers.setdefault((self.names(workload), check), {})
            found = Answer(max(0, entry.at - asked[1]), entry.suffix, data, entry.seq, entry.at)
            answers.setdefault(attempt, []).append(found)
        return True

    def of(self, name: str, check: str, attempt: int) -> tuple[list[Answer], bool]:
        """Return the verdicts on an attempt, and whether they are assumed: as others', or none at all.

        That a check said Retry in the last attempt that there was is no reason for it to say so for ever.
        """
        known = self.answers.get((name, check))
        if known is not None and attempt in known:
            return known[attempt], False
        if known is not None and (last := known[max(known)])[-1].data.get("state") != "Retry":
            return last, True
        typical = self._of_check(check)
        return ([] if typical is None else [typical]), True

    def _of_check(self, check: str) -> Answer | None:
        """Return the verdict of median delay among those that settled an attempt."""
        if check not in self._typical:
            last = [attempts[max(attempts)][-1] for (_, of), attempts in self.answers.items() if of == check]
            settled = [answer for answer in last if answer.data.get("state") == "Ready"]
            from statistics import median

            middle = median(sorted(a.after_us for a in settled)) if settled else 0
            self._typical[check] = min(settled, key=lambda a: abs(a.after_us - middle), default=None)
        return self._typical[check]
