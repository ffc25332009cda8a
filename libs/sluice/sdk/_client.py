"""The asynchronous client: publish job events, follow dispatch, wait for jobs."""

import asyncio
import getpass
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import msgspec

from sluice.events.base import JobKey
from sluice.events.codec import decode_message, encode_message
from sluice.events.job import (
    JobActivated,
    JobDeactivated,
    JobDeleted,
    JobEvent,
    JobFinished,
    JobPodsReady,
    JobPodsReclaimable,
    JobScaled,
    JobStopped,
)
from sluice.local.cell_directory import nearest
from sluice.log.contract import Ack
from sluice.log.errors import EventLogError, StaleSequenceError, TooManyMessagesError, UnansweredError
from sluice.log.nats import jetstream_api as api
from sluice.log.nats.jetstream import JetStreamLog, read_ack
from sluice.log.nats.kv import Bucket
from sluice.log.nats.protocol import publish_frame, shown, with_files
from sluice.protocol.dispatch import DispatchEntry, job_of_key
from sluice.protocol.subjects import job_suffix
from sluice.protocol.tracing import carried

from ._entries import read_entry
from ._errors import NotPublishedError
from ._manifests import JobManifest, Source, load
from ._waiting import JobState, Waiter

DEFAULT_URL = "nats://127.0.0.1:4222"
BULK = 500
"""Messages published before an acknowledgement is waited for, in bulk."""

ANSWERS_S = 5.0
"""How long they may take before those that are not acknowledged are published again, one by one."""


class Submitted(NamedTuple):
    """A job in the log. `seq` is its message's place; `duplicate` if a message with this id was there."""

    namespace: str
    name: str
    seq: int
    duplicate: bool = False

    @property
    def job(self) -> JobKey:
        """`namespace/name`."""
        return JobKey(f"{self.namespace}/{self.name}")


Job = Submitted | str
"""What `submit` returned, or `namespace/name`, or a name in the namespace `default`."""


class Change(NamedTuple):
    """What a job should be doing now; None when there is nothing (any more)."""

    job: JobKey
    entry: DispatchEntry | None


class AsyncClient:
    """A connection to one cell.

        async with AsyncClient() as sluice:
            job = await sluice.submit("job.yaml")
            await sluice.wait(job)

    *url*: by default SLUICE_NATS_URL, NATS_URL, the cell of the nearest `.sluice/` if one runs there, or a
    server on this machine. *cell*: by default SLUICE_CELL, that cell's name, or `main`. *source*: who
    publishes, as the log will say. *timeout_s*: how long a message is offered to a server that does not
    answer.
    """

    def __init__(self, url: str = "", cell: str = "", *, source: str = "", timeout_s: float = 10.0) -> None:
        url = url or os.environ.get("SLUICE_NATS_URL") or os.environ.get("NATS_URL") or ""
        url = (
            with_files(url, os.environ.get("SLUICE_CREDENTIALS"), os.environ.get("SLUICE_CA")) if url else ""
        )
        nearby = None if url else nearest(Path.cwd())
        self.url = url or (nearby.url if nearby is not None else DEFAULT_URL)
        self.source = source or default_source()
        self.timeout_s = timeout_s
        self.log = JetStreamLog(
            self.url,
            cell or os.environ.get("SLUICE_CELL") or (nearby.cell if nearby is not None else "main"),
            name="sluice-sdk",
            # Executors make buckets, which need as many copies as the log.
            replicas=int(os.environ.get("SLUICE_REPLICAS") or 1),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; the client cannot be used any more."""
        await self.log.close()

    # publishing

    async def submit(self, manifest: Source, *, namespace: str = "", message_id: str = "") -> Submitted:
        """Publish a job. Submitting a live job again changes it, a finished one runs again.

        *message_id*: a second message with the same id changes nothing; give one to be able to repeat a
        submission after a crash. By default every call is a submission of its own.

        Raises:
            ManifestError: the manifest is invalid, or *manifest* is a file with several jobs.
            NotPublishedError: the log did not take it.
        """
        (job,) = _one(load(manifest, namespace))
        return await self._submit(job, message_id or new_id())

    async def _submit(self, job: JobManifest, message_id: str) -> Submitted:
        ack = await self._publish(job.namespace, job.name, "JobSubmitted", job.data, message_id)
        return Submitted(job.namespace, job.name, ack[0], ack[1])

    async def submit_many(
        self, manifests: Iterable[Source] | Source, *, namespace: str = "", message_ids: Sequence[str] = ()
    ) -> list[Submitted]:
        """Publish many jobs, or all of one file, with many messages under way at a time.

        All manifests are checked before any is published. Raises as `submit`; with message ids the same
        call may then be repeated.
        """
        many = [manifests] if isinstance(manifests, str | os.PathLike | Mapping) else manifests
        sources = many if isinstance(many, Iterable) else [many]
        jobs = [job for source in sources for job in load(source, namespace)]
        ids = list(message_ids) or [new_id() for _ in jobs]
        if len(ids) != len(jobs):
            raise ValueError(f"{len(jobs)} jobs, but {len(ids)} message ids")
        done: list[Submitted] = []
        for begin in range(0, len(jobs), BULK):
            part = list(zip(jobs[begin : begin + BULK], ids[begin : begin + BULK], strict=True))
            done += await self._submit_part(part)
        return done

    async def _submit_part(self, part: list[tuple[JobManifest, str]]) -> list[Submitted]:
        """Publish without waiting in between; what is not acknowledged is published again, one by one."""
        at = time.time_ns() // 1000
        waiting, frames = [], []
        connection = await self._connection(part[0][0].job, "JobSubmitted")
        for job, message_id in part:
            subject = self.log.cell.subject(job_suffix(job.namespace, job.name))
            payload = self._encode(job.namespace, job.name, "JobSubmitted", job.data, message_id, at)
            reply, future = connection.expect(subject)
            frames.append(publish_frame(subject, payload, reply, {"Nats-Msg-Id": message_id}))
            waiting.append((job, message_id, subject, reply, future))
        connection.write(b"".join(frames))
        done = []
        # One patience for all: what was on its way through somebody who died is not answered, any of it.
        until = time.monotonic() + min(self.timeout_s, ANSWERS_S)
        for job, message_id, subject, reply, future in waiting:
            try:
                frame = await connection.answer(reply, future, max(0.001, until - time.monotonic()))
                ack = read_ack(subject, None, frame.payload)
                done.append(Submitted(job.namespace, job.name, ack.seq, ack.duplicate))
            except (EventLogError, ConnectionError, TimeoutError):
                done.append(await self._submit(job, message_id))
        return done

    async def scale(
        self,
        job: Job,
        pod_sets: Mapping[str, int] | int,
        *,
        generation: int | None = None,
        message_id: str = "",
    ) -> int:
        """Change the number of pods: of the pod set `main`, or by pod set's name. Returns the sequence."""
        counts = {"main": pod_sets} if isinstance(pod_sets, int) else dict(pod_sets)
        return await self.publish(
            job, JobScaled(pod_sets=counts, generation=generation), message_id=message_id
        )

    async def activate(self, job: Job, message: str = "", *, message_id: str = "") -> int:
        """Let a job that was deactivated, also by a check or for its failures, be queued again."""
        return await self.publish(job, JobActivated(message=message), message_id=message_id)

    async def deactivate(self, job: Job, message: str = "", *, message_id: str = "") -> int:
        """Stop a job if it runs, and keep it out of its queue until it is activated."""
        return await self.publish(job, JobDeactivated(message=message), message_id=message_id)

    async def delete(self, job: Job, message: str = "", *, message_id: str = "") -> int:
        """Delete a job; a running one is stopped first."""
        return await self.publish(job, JobDeleted(message=message), message_id=message_id)

    async def finish(
        self,
        job: Job,
        *,
        success: bool = True,
        message: str = "",
        attempt: int | None = None,
        message_id: str = "",
    ) -> int:
        """Report that a job has finished. Executors should say of which *attempt*."""
        data = JobFinished(success=success, message=message, attempt=attempt)
        return await self.publish(job, data, message_id=message_id)

    async def pods_ready(
        self, job: Job, *, ready: bool = True, attempt: int | None = None, message_id: str = ""
    ) -> int:
        """Report that all pods run, or (*ready* false) that some do not any more."""
        return await self.publish(job, JobPodsReady(ready=ready, attempt=attempt), message_id=message_id)

    async def pods_reclaimable(
        self,
        job: Job,
        pods: Mapping[str, int],
        *,
        succeeded: Mapping[str, int] | None = None,
        attempt: int | None = None,
        message_id: str = "",
    ) -> int:
        """Report how many pods of each set have ended for good, so that their quota is free.

        *succeeded*, of elastic jobs: how many completions of each set are done.
        """
        data = JobPodsReclaimable(pods=dict(pods), succeeded=dict(succeeded or {}), attempt=attempt)
        return await self.publish(job, data, message_id=message_id)

    async def stopped(
        self, job: Job, *, attempt: int | None = None, message: str = "", message_id: str = ""
    ) -> int:
        """Report that no pod of the job runs any more: the answer to being suspended."""
        data = JobStopped(attempt=attempt, message=message)
        return await self.publish(job, data, message_id=message_id)

    async def publish(
        self, job: Job, data: JobEvent, *, message_id: str = "", after: int | None = None
    ) -> int:
        """Publish any event about a job and return its sequence.

        *after*: sequence of what must be the newest message about the job, 0 if there must be none.

        Raises:
            StaleSequenceError: another message about the job is the newest.
            NotPublishedError: the log did not take it.
        """
        return (await self.offer(job, data, message_id or new_id(), after)).seq

    async def offer(self, job: Job, data: JobEvent, message_id: str, after: int | None = None) -> Ack:
        """As `publish`; tells too whether the log had a message of this id already, whatever is newest."""
        namespace, name = split(job)
        return Ack(*await self._publish(namespace, name, type(data).__name__, data, message_id, after))

    async def _publish(
        self,
        namespace: str,
        name: str,
        event_type: str,
        data: object,
        message_id: str,
        after: int | None = None,
    ) -> tuple[int, bool]:
        """Offer the message until it is acknowledged: its id keeps it from being stored twice."""
        _check_id(message_id)
        payload = self._encode(namespace, name, event_type, data, message_id, time.time_ns() // 1000)
        deadline = time.monotonic() + self.timeout_s
        while True:
            try:
                async with asyncio.timeout(max(0.1, deadline - time.monotonic())):
                    ack = await self.log.append(
                        job_suffix(namespace, name), payload, expected_last=after, msg_id=message_id
                    )
                return ack.seq, ack.duplicate
            except StaleSequenceError:
                raise
            except (UnansweredError, TimeoutError) as error:
                if time.monotonic() >= deadline:
                    where = f"a cell {self.log.cell.name!r} at {shown(self.url)}"
                    detail = f"{error or 'no answer'}; is there {where}?"
                    raise NotPublishedError(f"{namespace}/{name}", event_type, detail) from error
                await asyncio.sleep(0.1)
            except TooManyMessagesError as error:
                if time.monotonic() + error.retry_after_s >= deadline:
                    raise NotPublishedError(
                        f"{namespace}/{name}", event_type, error.detail, error.retry_after_s
                    ) from error
                await asyncio.sleep(error.retry_after_s)
            except EventLogError as error:
                raise NotPublishedError(f"{namespace}/{name}", event_type, str(error)) from error

    def _encode(
        self, namespace: str, name: str, event_type: str, data: object, message_id: str, at: int
    ) -> bytes:
        return encode_message(
            message_id=message_id,
            source=self.source,
            event_type=event_type,
            subject=f"{namespace}/{name}",
            at=at,
            data=data,
            extensions=carried(),
        )

    async def _connection(self, job: str, event_type: str) -> Any:
        try:
            return await self.log.connection()
        except EventLogError as error:
            raise NotPublishedError(job, event_type, str(error)) from error

    # following

    async def dispatch(self) -> AsyncIterator[Change]:
        """Yield what every job should be doing: first as it is now, then each change, for ever.

        Level-triggered: a change that was overtaken by a newer one may be left out. So is what is no entry.
        """
        async for batch in Bucket(self.log, "dispatch").follow():
            for key, value in batch:
                entry = None if value is None else read_entry(key, value)
                if entry is not None or value is None:
                    yield Change(job_of_key(key), entry)

    async def manifest(self, seq: int, job: Job = "") -> msgspec.Raw:
        """Return the manifest in the JobSubmitted message at *seq* (`DispatchEntry.manifest_seq`), JSON.

        *job*: whose it is; who may read messages of some namespaces only has to say so.

        Raises:
            LookupError: there is none.
            LogUnavailableError, ConnectionError, TimeoutError: no answer.
        """
        subject = self.log.cell.subject(job_suffix(*split(job))) if job else ""
        connection = await self.log.connection()
        found = await api.message(connection, self.log.cell.stream, seq=seq, next_of=subject)
        if found is None or found.seq != seq:
            raise LookupError(f"no message at {seq}")
        event = decode_message(found.payload)
        if isinstance(event, tuple) or event.type != "JobSubmitted":
            raise LookupError(f"message {seq} is no JobSubmitted")
        return event.data

    async def wait(
        self,
        job: Job,
        until: Literal["Pending", "Running", "Finished"] = "Finished",
        *,
        timeout_s: float | None = None,
    ) -> JobState:
        """Wait until a job has come so far (or further), and return what it has come to.

        Raises:
            RejectedError: the submission was refused; tells why.
            JobFailedError: the job has failed, and *until* is Finished.
            JobDeletedError, UnknownJobError: there is no such job (any more).
            WaitTimeoutError: not within *timeout_s*.
        """
        return (await self.wait_all([job], until, timeout_s=timeout_s))[0]

    async def wait_all(
        self,
        jobs: Iterable[Job],
        until: Literal["Pending", "Running", "Finished"] = "Finished",
        *,
        timeout_s: float | None = None,
    ) -> list[JobState]:
        """Wait for several jobs with one reader; raises as `wait`, for the first job that gives cause."""
        waiter = Waiter(self.log, until)
        for job in jobs:
            namespace, name = split(job)
            waiter.add(JobKey(f"{namespace}/{name}"), job.seq if isinstance(job, Submitted) else None)
        return await waiter.run(timeout_s)


def _one(jobs: list[JobManifest]) -> list[JobManifest]:
    if len(jobs) != 1:
        raise ValueError(f"{len(jobs)} jobs in the file: use submit_many")
    return jobs


def split(job: Job) -> tuple[str, str]:
    """Return namespace and name."""
    if isinstance(job, Submitted):
        return job.namespace, job.name
    namespace, slash, name = job.partition("/")
    return (namespace, name) if slash else ("default", namespace)


def new_id() -> str:
    """Return an id for one message."""
    return f"{time.time_ns():x}-{secrets.token_hex(4)}"


def _check_id(message_id: str) -> None:
    if not message_id.isprintable() or not message_id.isascii():
        raise ValueError(f"message id {message_id!r}: want printable ASCII")


def default_source() -> str:
    """Return who publishes: `sluice-sdk/user@host`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"sluice-sdk/{user}@{socket.gethostname()}"
