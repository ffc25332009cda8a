"""Sluice for programs: publish job events, follow dispatch, wait for jobs, be an executor.

    from sluice.sdk import Client

    with Client() as sluice:
        sluice.wait(sluice.submit("job.yaml"))

`AsyncClient` is the same for asyncio.
"""

from .client import AsyncClient, Change, Submitted
from .errors import (
    JobDeletedError,
    JobFailedError,
    ManifestError,
    NotPublishedError,
    RejectedError,
    SdkError,
    UnknownJobError,
    WaitTimeoutError,
)
from .executor import DuplicateExecutorError, Executor, ExecutorSettings
from .sync import Client
from .waiting import JobState
from .work import Outcome, Work

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
