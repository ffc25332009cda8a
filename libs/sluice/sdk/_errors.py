"""Errors for users of the SDK. Fields carry for code what the message says to people."""

from collections.abc import Sequence

from sluice.api.errors import FieldError, aggregate


class SdkError(Exception):
    """Base of the SDK's errors."""


class ManifestError(SdkError, ValueError):
    """A manifest that cannot be read or is invalid; nothing was published."""

    def __init__(self, what: str, errors: Sequence[FieldError]) -> None:
        super().__init__(f"{what}: {aggregate(errors)}")
        self.what, self.errors = what, tuple(errors)


class NotPublishedError(SdkError):
    """The log did not take a message; it may be published again with the same message id.

    `retry_after_s`: when, if this user has sent more than it may; 0 otherwise.
    """

    def __init__(self, job: str, event_type: str, detail: str, retry_after_s: float = 0.0) -> None:
        super().__init__(f"{event_type} of job {job} was not published: {detail}")
        self.job, self.event_type, self.detail = job, event_type, detail
        self.retry_after_s = retry_after_s


class RejectedError(SdkError):
    """The cell read the message and refused it; `seq` is the message's place in the log."""

    def __init__(self, job: str, seq: int, errors: Sequence[FieldError]) -> None:
        super().__init__(f"job {job} was rejected (message {seq}): {aggregate(errors)}")
        self.job, self.seq, self.errors = job, seq, tuple(errors)


class JobFailedError(SdkError):
    """The job that was waited for has failed."""

    def __init__(self, job: str, message: str) -> None:
        super().__init__(f"job {job} failed: {message}")
        self.job, self.message = job, message


class JobDeletedError(SdkError):
    """The job that was waited for was deleted."""

    def __init__(self, job: str) -> None:
        super().__init__(f"job {job} was deleted")
        self.job = job


class UnknownJobError(SdkError, LookupError):
    """Nobody has submitted this job."""

    def __init__(self, job: str) -> None:
        super().__init__(f"job {job} is not known: it was never submitted to this cell")
        self.job = job


class WaitTimeoutError(SdkError, TimeoutError):
    """The job did not come so far in time; `state` is what it had come to."""

    def __init__(self, job: str, wanted: str, state: str, timeout_s: float) -> None:
        super().__init__(f"job {job} is {state}, not {wanted}, after {timeout_s:g} s")
        self.job, self.wanted, self.state, self.timeout_s = job, wanted, state, timeout_s
