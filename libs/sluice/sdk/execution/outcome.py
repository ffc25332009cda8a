"""How attempts end, and what earlier processes left of them."""

from typing import NamedTuple

import msgspec

from sluice.events.base import JobKey
from sluice.events.job import JobFinished


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

    @property
    def report(self) -> str:
        """The id of the report on how the attempt ended: the one that the earlier process would have used."""
        return f"{self.uid}-{self.attempt}-end"


def finished(outcome: Outcome, uid: str, attempt: int, executor: str) -> JobFinished:
    return JobFinished(
        success=outcome.success,
        message=outcome.message,
        attempt=attempt,
        uid=uid,
        executor=executor,
        exit_codes=outcome.exit_codes,
    )


__all__ = ["Held", "Outcome", "finished"]
