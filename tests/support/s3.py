"""An S3-compatible server (moto's, as a process), and what stands before it and fails.

with S3Server() as server, FaultyS3(server) as store:
    store.answer_500(times=3)
    store.tear("segment-", times=1)     # the connection ends in the middle of an upload
"""

import asyncio
import contextlib
import io
import subprocess
import sys
import threading
import urllib.request

import aiohttp
from aiohttp import web

from sluice.local.processes import free_port
from tests.support.waiting import wait_until

KEY = "AKIATESTKEY"
SECRET = "a-secret-that-nobody-prints"


class S3Server:
    """The server. Its data goes with it."""

    def __init__(self) -> None:
        self.port = free_port(0)

    def __enter__(self) -> "S3Server":
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self._answers)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        address = f"http://127.0.0.1:{self.port}/moto-api/"
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5):
            return True
        return False

    def make_bucket(self, name: str) -> None:
        head = f"AWS4-HMAC-SHA256 Credential={KEY}/20260101/us-east-1/s3/aws4_request, SignedHeaders=host"
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/{name}",
            method="PUT",
            headers={"Authorization": f"{head}, Signature=0"},
        )
        with urllib.request.urlopen(request, timeout=30):
            pass


class FaultyS3:
    """A proxy before the server, in a thread of its own."""

    def __init__(self, server: S3Server) -> None:
        self.server, self.port = server, 0
        self.keys: set[str] = set()
        """Whose requests came."""
        self._errors = 0
        self._tears: tuple[str, int] = ("", 0)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def answer_500(self, times: int) -> None:
        self._errors = times

    def tear(self, what: str, times: int) -> None:
        self._tears = (what, times)

    def __enter__(self) -> "FaultyS3":
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(60)

    def _run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._over = asyncio.Event()
        runner = web.ServerRunner(web.Server(self._answer, auto_decompress=False), shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        async with aiohttp.ClientSession(auto_decompress=False) as self._session:
            await site.start()
            assert site._server is not None
            self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
            self._ready.set()
            await self._over.wait()
            await runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.keys.add(request.headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0])
        if self._errors:
            self._errors -= 1
            return web.Response(status=500, text="<Error><Code>InternalError</Code></Error>")
        what, times = self._tears
        if request.method == "PUT" and times and what in request.path_qs:
            self._tears = (what, times - 1)
            await request.content.read(1000)
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        body = await request.content.read()
        async with self._session.request(
            request.method,
            f"http://127.0.0.1:{self.server.port}{request.raw_path}",
            data=io.BytesIO(body),
            headers={key: value for key, value in request.headers.items() if key != "Transfer-Encoding"},
        ) as answer:
            found = await answer.read()
            headers = {
                k: v for k, v in answer.headers.items() if k not in ("Transfer-Encoding", "Connection")
            }
            return web.Response(status=answer.status, body=found, headers=headers)
