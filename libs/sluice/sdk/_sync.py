"""The same client for programs without asyncio."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Literal, Self

from sluice.events.job import JobEvent

from ._client import AsyncClient, Change, Job, Submitted
from ._manifests import Source
from ._waiting import JobState


class Client:
    """A connection to one cell, for synchronous programs; may be used from several threads.

        with Client() as sluice:
            job = sluice.submit("job.yaml")
            sluice.wait(job)

    Parameters, results and errors are those of `AsyncClient`.
    """

    def __init__(self, url: str = "", cell: str = "", *, source: str = "", timeout_s: float = 10.0) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sluice-sdk", daemon=True)
        self._thread.start()

        async def make() -> AsyncClient:
            return AsyncClient(url, cell, source=source, timeout_s=timeout_s)

        self._client = self._call(make())

    def _call[T](self, work: Coroutine[object, object, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C in the caller must not leave the work going on.
            future.cancel()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the client cannot be used any more."""
        if self._loop.is_closed():
            return
        self._call(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def submit(self, manifest: Source, *, namespace: str = "", message_id: str = "") -> Submitted:
        return self._call(self._client.submit(manifest, namespace=namespace, message_id=message_id))

    def submit_many(
        self, manifests: Iterable[Source] | Source, *, namespace: str = "", message_ids: Sequence[str] = ()
    ) -> list[Submitted]:
        work = self._client.submit_many(manifests, namespace=namespace, message_ids=message_ids)
        return self._call(work)

    def scale(
        self,
        job: Job,
        pod_sets: Mapping[str, int] | int,
        *,
        generation: int | None = None,
        message_id: str = "",
    ) -> int:
        work = self._client.scale(job, pod_sets, generation=generation, message_id=message_id)
        return self._call(work)

    def activate(self, job: Job, message: str = "", *, message_id: str = "") -> int:
        return self._call(self._client.activate(job, message, message_id=message_id))

    def deactivate(self, job: Job, message: str = "", *, message_id: str = "") -> int:
        return self._call(self._client.deactivate(job, message, message_id=message_id))

    def delete(self, job: Job, message: str = "", *, message_id: str = "") -> int:
        return self._call(self._client.delete(job, message, message_id=message_id))

    def finish(
        self,
        job: Job,
        *,
        success: bool = True,
        message: str = "",
        attempt: int | None = None,
        message_id: str = "",
    ) -> int:
        work = self._client.finish(
            job, success=success, message=message, attempt=attempt, message_id=message_id
        )
        return self._call(work)

    def pods_ready(
        self, job: Job, *, ready: bool = True, attempt: int | None = None, message_id: str = ""
    ) -> int:
        work = self._client.pods_ready(job, ready=ready, attempt=attempt, message_id=message_id)
        return self._call(work)

    def pods_reclaimable(
        self,
        job: Job,
        pods: Mapping[str, int],
        *,
        succeeded: Mapping[str, int] | None = None,
        attempt: int | None = None,
        message_id: str = "",
    ) -> int:
        work = self._client.pods_reclaimable(
            job, pods, succeeded=succeeded, attempt=attempt, message_id=message_id
        )
        return self._call(work)

    def stopped(
        self, job: Job, *, attempt: int | None = None, message: str = "", message_id: str = ""
    ) -> int:
        work = self._client.stopped(job, attempt=attempt, message=message, message_id=message_id)
        return self._call(work)

    def publish(self, job: Job, data: JobEvent, *, message_id: str = "") -> int:
        return self._call(self._client.publish(job, data, message_id=message_id))

    def dispatch(self, timeout_s: float | None = None) -> Iterator[Change]:
        """Yield changes as `AsyncClient.dispatch`; ends when none comes for *timeout_s*."""
        changes = self._client.dispatch()
        while True:

            async def following() -> Change:
                async with asyncio.timeout(timeout_s):
                    return await anext(changes)

            try:
                yield self._call(following())
            except (TimeoutError, concurrent.futures.TimeoutError):
                return

    def wait(
        self,
        job: Job,
        until: Literal["Pending", "Running", "Finished"] = "Finished",
        *,
        timeout_s: float | None = None,
    ) -> JobState:
        return self._call(self._client.wait(job, until, timeout_s=timeout_s))

    def wait_all(
        self,
        jobs: Iterable[Job],
        until: Literal["Pending", "Running", "Finished"] = "Finished",
        *,
        timeout_s: float | None = None,
    ) -> list[JobState]:
        return self._call(self._client.wait_all(jobs, until, timeout_s=timeout_s))


for _name, _method in vars(Client).items():
    # The same words for both: what a method does stands at `AsyncClient`'s.
    if not _name.startswith("_") and not _method.__doc__:
        _method.__doc__ = getattr(AsyncClient, _name).__doc__
