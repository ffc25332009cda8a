"""The same client for programs without asyncio."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from typing import Concatenate, Self

from ._client import AsyncClient, Change


def _blocking[**P, T](
    method: Callable[Concatenate[AsyncClient, P], Coroutine[object, object, T]],
) -> Callable[Concatenate["Client", P], T]:
    """Return the same method for `Client`: it waits for the result."""

    @wraps(method)
    def call(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._call(method(self._client, *args, **kwargs))

    return call


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

    submit = _blocking(AsyncClient.submit)
    submit_many = _blocking(AsyncClient.submit_many)
    scale = _blocking(AsyncClient.scale)
    activate = _blocking(AsyncClient.activate)
    deactivate = _blocking(AsyncClient.deactivate)
    delete = _blocking(AsyncClient.delete)
    finish = _blocking(AsyncClient.finish)
    pods_ready = _blocking(AsyncClient.pods_ready)
    pods_reclaimable = _blocking(AsyncClient.pods_reclaimable)
    stopped = _blocking(AsyncClient.stopped)
    publish = _blocking(AsyncClient.publish)

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

    wait = _blocking(AsyncClient.wait)
    wait_all = _blocking(AsyncClient.wait_all)
