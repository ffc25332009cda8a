"""Sluice for programs: publish job events, follow dispatch, wait for jobs, be an executor.

    from sluice.sdk import Client

    with Client() as sluice:
        sluice.wait(sluice.submit("job.yaml"))

`AsyncClient` is the same for asyncio.
"""

from ._client import AsyncClient, Change, Submitted
from ._errors import (
    JobDeletedError,
    JobFailedError,
    ManifestError,
    NotPublishedError,
    RejectedError,
    SdkError,
    UnknownJobError,
    WaitTimeoutError,
)
from ._executor import DuplicateExecutorError, Executor, ExecutorSettings
from ._sync import Client
from ._waiting import JobState
from ._work import Outcome, Work

__all__ = [
    "AsyncClient",
    "Change",
    "Client",
    "DuplicateExecutorError",
    "Executor",
    "ExecutorSettings",
    "JobDeletedError",
    "JobFailedError",
    "JobState",
    "ManifestError",
    "NotPublishedError",
    "Outcome",
    "RejectedError",
    "SdkError",
    "Submitted",
    "UnknownJobError",
    "WaitTimeoutError",
    "Work",
    "checks",
    "claims",
    "execution",
]
