"""Outcomes of attempts, and what earlier processes left of them."""

from itertools import islice
from typing import NamedTuple

import msgspec

from sluice.events.base import JobKey
from sluice.events.job import JobFinished

MESSAGE_MOST = 8192
"""Characters of an outcome's message that are reported; the rest is cut off."""

CODES_MOST = 1000
"""Pods whose exit codes are reported."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended. `exit_codes`: by pod."""

    success: bool = True
    message: str = ""
    exit_codes: dict[str, int] = {}


class Held(NamedTuple):
    """A claim of an earlier process of this executor."""

    key: str
    job: JobKey
    uid: str
    attempt: int
    revision: int = 0
    """Of the claim."""
    since: int = 1
    """Where the log speaks of the attempt first, or of its job, as far as is known."""

    @property
    def report(self) -> str:
        """The id of the report on how the attempt ended: the one that the earlier process would have used."""
        return f"{self.uid}-{self.attempt}-end"


def finished(outcome: Outcome, uid: str, attempt: int, executor: str) -> JobFinished:
    """Return the report; a larger one than the slice-aggregator takes would leave the job without an end."""
    message, codes = outcome.message, outcome.exit_codes
    if len(message) > MESSAGE_MOST:
        message = f"{message[: MESSAGE_MOST - 30]}... ({len(message)} characters)"
    if len(codes) > CODES_MOST:
        codes = dict(islice(codes.items(), CODES_MOST))
    return JobFinished(
        success=outcome.success,
        message=message,
        attempt=attempt,
        uid=uid,
        executor=executor,
        exit_codes=codes,
    )
