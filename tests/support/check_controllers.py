"""A small controller of admission checks, written with nats-py against the protocol, for tests on a server.

with Controller(url, "ctl", lambda request: {"state": "Ready"}) as controller:
    controller.say(request, "Retry", requeueAfterSeconds=1)
"""

import asyncio
import json
import threading
import uuid
from collections.abc import Callable
from typing import Any, Self

import nats
from nats.errors import Error as NatsError
from nats.js.errors import Error as JetStreamError

from sluice.protocol.dispatch import key_token
from sluice.protocol.subjects import Cell, verdict_suffix

Request = dict[str, Any]
Answer = dict[str, Any] | None


def silent(_request: Request) -> Answer:
    """Return nothing: somebody else says it."""
    return None


def approve(request: Request) -> Answer:
    """Return Ready for whatever is asked."""
    return {"state": "Ready"} if request.get("state", "Pending") == "Pending" else None


class Controller:
    """Follows its requests in a thread, and answers each new (workload, check, attempt) as *answer* says.

    `requests` holds those that stand now, `stopped` the keys that were taken back.
    """

    def __init__(
        self, url: str, name: str, answer: Callable[[Request], Answer] = approve, *, cell: str = "main"
    ) -> None:
        self.url, self.name, self.answer, self.cell = url, name, answer, Cell(cell)
        self.requests: dict[str, Request] = {}
        self.stopped: list[str] = []
        self.seen: list[Request] = []
        """Every value that was read, in order."""
        self.beating = True
        self._answered: set[tuple[str, int]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, daemon=True)
        self._ended = asyncio.Event()
        self._connection: Any = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(10)

    # What tests ask and do

    def of(self, job: str, check: str = "") -> Request | None:
        """Return the request for a job that stands now."""
        for request in list(self.requests.values()):
            if request["workload"].get("job") == job and check in ("", request["check"]):
                return request
        return None

    def say(self, request: Request, state: str, **fields: Any) -> None:
        """Give a verdict on what *request* asks."""
        workload = request["workload"]
        key = f"{workload['namespace']}/{workload['name']}"
        given = {"attempt": request["attempt"], "workload": key, "check": request["check"], **fields}
        self.send({**given, "state": state})

    def send(self, data: Any, *, controller: str = "", payload: bytes | None = None) -> None:
        """Publish a verdict, or whatever *payload* is, as it is."""
        future = asyncio.run_coroutine_threadsafe(self._send(data, controller, payload), self._loop)
        future.result(10)

    def value(self, bucket: str, key: str) -> Any:
        """Return the JSON value of a key of one of the cell's buckets."""

        async def get() -> Any:
            store = await self._connection.jetstream().key_value(self.cell.bucket(bucket))
            return json.loads((await store.get(key)).value)

        return asyncio.run_coroutine_threadsafe(get(), self._loop).result(10)

    # The thread

    async def _send(self, data: Any, controller: str = "", payload: bytes | None = None) -> None:
        message = {
            "specversion": "1.0",
            "id": str(uuid.uuid4()),
            "source": self.name,
            "type": "CheckVerdict",
            "data": data,
        }
        subject = self.cell.subject(verdict_suffix(controller or self.name))
        body = json.dumps(message).encode() if payload is None else payload
        await self._connection.jetstream().publish(subject, body, headers={"Nats-Msg-Id": message["id"]})

    async def _run(self) -> None:
        self._connection = await nats.connect(self.url, max_reconnect_attempts=-1, reconnect_time_wait=0.1)
        tasks = [asyncio.create_task(self._beat()), asyncio.create_task(self._follow())]
        await self._ended.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._connection.close()

    def _run_loop(self) -> None:
        try:
            self._loop.run_until_complete(self._run())
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()  # nats-py leaves those of its watchers behind
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        finally:
            self._loop.close()

    async def _beat(self) -> None:
        key = f"$KV.{self.cell.bucket('heartbeats')}.controller.{key_token(self.name)}"
        value = json.dumps({"name": self.name, "instance": "test"}).encode()
        while True:
            try:
                if self.beating:
                    await self._connection.jetstream().publish(key, value, headers={"Nats-TTL": "2s"})
            except (NatsError, JetStreamError, OSError):
                pass  # the bucket is not there yet, or the server is away
            await asyncio.sleep(0.3)

    async def _follow(self) -> None:
        while True:
            try:
                bucket = await self._connection.jetstream().key_value(self.cell.bucket("checks"))
                watcher = await bucket.watch(f"{key_token(self.name)}.>")
                async for entry in watcher:
                    if entry is not None:
                        await self._take(entry.key, entry.value if entry.operation is None else None)
            except (NatsError, JetStreamError, OSError):
                await asyncio.sleep(0.1)

    async def _take(self, key: str, value: bytes | None) -> None:
        if value is None:
            if self.requests.pop(key, None) is not None:
                self.stopped.append(key)
            return
        request: Request = json.loads(value)
        self.requests[key] = request
        self.seen.append(request)
        once = (key, request["attempt"])
        if once in self._answered:
            return
        answer = self.answer(request)
        if answer is not None:
            self._answered.add(once)
            workload = request["workload"]
            name = f"{workload['namespace']}/{workload['name']}"
            given = {"attempt": request["attempt"], "workload": name, "check": request["check"]}
            await self._send({**given, **answer})
