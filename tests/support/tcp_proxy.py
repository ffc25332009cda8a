"""A TCP proxy on the loopback interface: it can hold what comes, cut connections off, or delay them.

async with TcpProxy(lambda: 4222) as proxy:
    AsyncClient(proxy.url)
    proxy.cut()      # connections end, new ones are refused
    proxy.hold()     # connections stay, and nothing comes through: as in a partition
    proxy.heal()
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

CHUNK = 1 << 16


@dataclass
class TcpProxy:
    """*target*: returns the port to go to, asked for each connection: a server may move."""

    target: Callable[[], int]
    delay_s: float = 0.0
    """How much later everything arrives."""
    port: int = 0
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _free: asyncio.Event = field(default_factory=asyncio.Event)
    _refusing: bool = False

    async def __aenter__(self) -> "TcpProxy":
        self._free.set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """End all connections, and refuse new ones."""
        self._refusing = True
        for writer in list(self._open):
            writer.transport.abort()

    def hold(self) -> None:
        """Let nothing through: what is sent meanwhile arrives when this is over."""
        self._free.clear()

    def heal(self) -> None:
        self._refusing = False
        self.delay_s = 0.0
        self._free.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target())
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, back}
        for source, sink in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._carry(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await source.read(CHUNK):
                await asyncio.sleep(self.delay_s)
                await self._free.wait()
                sink.write(chunk)
                await sink.drain()
        self._open.discard(sink)
        sink.close()
