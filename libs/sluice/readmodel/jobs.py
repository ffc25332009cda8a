"""Jobs as they were submitted: which manifests came, what became of them, how the jobs ended."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.core.views import blocks
from sluice.core.views.blocks import Blocks
from sluice.events import job, slices
from sluice.events.base import Event, FieldError, JobKey, Micros
from sluice.events.catalogue import REFUSALS
from sluice.events.codec import decode_message
from sluice.events.ids import uid
from sluice.log.contract import Entry
from sluice.protocol.subjects import job_of

REFUSED = 1_000
"""Jobs that exist only as refused manifests: so many are shown, `log rejected` has all."""

CLAIMS = 8
"""Reports of a job's end that are kept until one of them is believed."""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Head(msgspec.Struct, frozen=True, rename="camel"):
    """What is kept of a submitted manifest; the rest stays in the log."""

    api_version: str = ""
    kind: str = ""
    metadata: _Metadata = _Metadata()


_HEADS = msgspec.json.Decoder(Head)


class Offer(NamedTuple):
    """One submitted manifest: where in the log it stands, when it came, what it is."""

    seq: int
    at: Micros
    head: Head


@dataclass(slots=True)
class Submitted:
    """A job by what was submitted for it."""

    key: JobKey
    latest: Offer
    in_force: Offer | None = None
    """The manifest that the job goes by; None while no workload was made of any."""
    uid: str = ""
    """Of the job that was made of it."""
    created_at: Micros = 0
    open: int = 0
    """Manifests that were not answered yet."""
    errors: tuple[FieldError, ...] = ()
    """Why `latest`, or a size wanted since, was refused; () while it was not."""
    refused: tuple[int, str] = (0, "")
    """Which event it is that has these errors: its sequence and type."""
    claims: dict[int, job.JobFinished] | None = None
    ended: job.JobFinished | None = None

    @property
    def shown(self) -> Offer:
        return self.in_force or self.latest


@dataclass(slots=True)
class Jobs:
    """All jobs that were submitted and are not forgotten; only `message` and `event` change it."""

    by_key: dict[JobKey, "Submitted | int"] = field(default_factory=dict)
    """Those whose job is over lie packed: by their numbers."""
    rejected: int = 0
    """Messages of all kinds that were refused so far."""
    offers: dict[int, tuple[JobKey, Offer]] = field(default_factory=dict)
    """Manifests that were not answered yet, by sequence."""
    refused: deque[JobKey] = field(default_factory=deque)
    """Jobs that were never more than refused manifests, oldest first; some may have become more."""
    ended: dict[JobKey, None] = field(default_factory=dict)
    """Jobs that have ended and do not lie packed yet, the oldest first."""
    packed: Blocks = field(default_factory=Blocks)

    def get(self, key: str) -> Submitted | None:
        """Return what is known of the job, to be read only."""
        found = self.by_key.get(JobKey(key))
        return self._read(found) if isinstance(found, int) else found

    def _read(self, number: int) -> Submitted:
        found = self.packed.piece(number)
        assert found is not None, f"job {number} is not there"
        return _decode(found)

    def _own(self, key: JobKey) -> Submitted | None:
        """Return what is known of the job, to be changed: what lay packed does no longer."""
        found = self.by_key.get(key)
        if not isinstance(found, int):
            return found
        submitted = self.by_key[key] = self._read(found)
        self.packed.take(found)
        self.ended[key] = None
        return submitted

    def pack(self) -> None:
        """Pack the oldest jobs that have ended, if there are enough of them."""
        while len(self.ended) >= blocks.OPEN + blocks.SIZE:
            found: list[Submitted] = []
            while self.ended and len(found) < blocks.SIZE:
                key = next(iter(self.ended))
                del self.ended[key]
                submitted = self.by_key.get(key)
                if isinstance(submitted, Submitted) and not submitted.open:
                    found.append(submitted)
            if found:
                numbers = self.packed.add([_encode(one) for one in found])
                self.by_key.update(zip((one.key for one in found), numbers, strict=True))
        for block in [*self.packed.sparse]:
            for number, piece in self.packed.numbered(block):
                key = _decode(piece).key
                if self.by_key.get(key) == number:
                    self._own(key)

    # Messages from outside

    def message(self, key: JobKey, entry: Entry) -> bool:
        """Fold a message about a job; tell whether people see a change."""
        message = decode_message(entry.payload)
        if isinstance(message, tuple):
            return False
        if message.type == "JobSubmitted":
            self._submitted(key, bytes(message.data), entry)
            return True
        submitted = self._own(key)
        if submitted is None:
            return False
        if message.type == "JobDeleted" and submitted.in_force is None and not submitted.open:
            # It was never more than a refused manifest.
            del self.by_key[key]
            return True
        if message.type == "JobScaled" and submitted.errors and submitted.in_force is not None:
            # What was wrong with an earlier edit is of no interest any more.
            submitted.errors = ()
            return True
        if message.type == "JobFinished":
            _claim(submitted, bytes(message.data), entry.seq)
        return False

    def _submitted(self, key: JobKey, data: bytes, entry: Entry) -> None:
        try:
            head = _HEADS.decode(data)
        except UNREADABLE:
            head = Head()
        offer = Offer(entry.seq, entry.at, head)
        self.offers[entry.seq] = (key, offer)
        submitted = self._own(key)
        if submitted is None:
            submitted = self.by_key[key] = Submitted(key, offer)
        submitted.latest = offer
        submitted.errors = ()
        submitted.open += 1

    # What the slice-aggregator makes of them

    def event(self, event: Event) -> Iterable[JobKey]:
        """Fold an event; return the jobs that were forgotten with it."""
        fold = FOLDS.get(type(event))
        return () if fold is None else fold(self, event)

    def finished(self, key: str, cause: int) -> None:
        """Note that the job has ended, by the report at *cause*."""
        submitted = self._own(JobKey(key))
        if submitted is None:
            return
        if submitted.claims is not None:
            submitted.ended = submitted.claims.get(cause)
            submitted.claims = None
        self.ended[submitted.key] = None

    def forget(self, key: str) -> None:
        """Forget a job that lost its last workload; what was submitted since under its name stays."""
        submitted = self._own(JobKey(key))
        if submitted is None:
            return
        if not submitted.open:
            del self.by_key[submitted.key]
            return
        submitted.in_force = submitted.ended = submitted.claims = None
        submitted.uid = ""

    def _answered(self, seq: int) -> tuple[Submitted, Offer] | None:
        found = self.offers.pop(seq, None)
        submitted = self._own(found[0]) if found is not None else None
        if found is None or submitted is None:
            return None
        submitted.open -= 1
        return submitted, found[1]

    def _taken(self, event: slices.WorkloadCreated | slices.WorkloadUpdated) -> Iterable[JobKey]:
        answered = self._answered(event.cause)
        if answered is not None:
            answered[0].in_force = answered[1]
        return ()

    def _created(self, event: slices.WorkloadCreated) -> Iterable[JobKey]:
        self._taken(event)
        reference = event.workload.job
        submitted = self._own(reference.key) if reference is not None else None
        if reference is not None and submitted is not None and submitted.uid != reference.uid:
            submitted.uid, submitted.created_at = reference.uid, event.workload.created_at
            submitted.ended = submitted.claims = None
            # The view has this very text as its key: there need not be two of each.
            submitted.key = reference.key
            del self.by_key[reference.key]
            self.by_key[reference.key] = submitted
        return ()

    def _all_ignored(self, event: slices.InputsIgnored) -> Iterable[JobKey]:
        return [key for seq in event.seqs for key in self._ignored(seq)]

    def _refused(self, _: Event) -> Iterable[JobKey]:
        self.rejected += 1
        return ()

    def _rejected(self, event: slices.Rejected) -> Iterable[JobKey]:
        self.rejected += 1
        answered = self._answered(event.cause)
        if answered is None:
            self._not_scaled(event)
            return ()
        submitted, offer = answered
        if offer.seq == submitted.latest.seq:
            submitted.errors = tuple(event.errors)
            submitted.refused = (event.cause, event.event_type)
        if submitted.in_force is None:
            self.refused.append(submitted.key)
        forgotten = []
        while len(self.refused) > REFUSED:
            key = self.refused.popleft()
            old = self._own(key)
            if old is not None and old.in_force is None and not old.open:
                del self.by_key[key]
                forgotten.append(key)
        return forgotten

    def _not_scaled(self, event: slices.Rejected) -> None:
        """A size that was refused is shown like a refused manifest: the job goes on as it was."""
        key = job_of(event.subject) if event.event_type == "JobScaled" else None
        submitted = self._own(key) if key is not None else None
        if submitted is not None and submitted.in_force is not None:
            submitted.errors = tuple(event.errors)
            submitted.refused = (event.cause, event.event_type)

    def _ignored(self, seq: int) -> Iterable[JobKey]:
        answered = self._answered(seq)
        if answered is None:
            return ()
        submitted = answered[0]
        if submitted.in_force is None and not submitted.open and not submitted.errors:
            del self.by_key[submitted.key]
            return (submitted.key,)
        return ()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Submitted).decode

FOLDS: dict[type[Event], Callable[[Jobs, Any], Iterable[JobKey]]] = {
    **dict.fromkeys(REFUSALS, Jobs._refused),
    slices.WorkloadCreated: Jobs._created,
    slices.WorkloadUpdated: Jobs._taken,
    slices.Rejected: Jobs._rejected,
    slices.InputsIgnored: Jobs._all_ignored,
}
"""What `Jobs.event` folds; all else is of no concern."""


def _claim(submitted: Submitted, data: bytes, seq: int) -> None:
    try:
        claim = msgspec.json.decode(data, type=job.JobFinished)
    except UNREADABLE:
        return
    claims = submitted.claims
    if claims is None:
        claims = submitted.claims = {}
    claims[seq] = claim
    if len(claims) > CLAIMS:
        del claims[next(iter(claims))]


def offered_uid(offer: Offer) -> str:
    """Return the uid that a job gets which is made of *offer*."""
    return uid(offer.seq)
