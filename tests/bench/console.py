"""The console against its budgets: `python -m tests.bench.console first|scrub|live [NUMBER]`.

first: NUMBER jobs (50,000), the first view of pages in Chromium. scrub: a log of NUMBER events (1,000,000),
states of the past over HTTP. live: a cell in which some 500 messages a second come, evenly, for NUMBER
seconds (60), with 20 clients of the stream and one page in Chromium. Each prints one JSON line.
"""

import asyncio
import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from sluice.log.contract import Entry
from sluice.log.nats.jetstream import JetStreamLog
from sluice.replay.source.log_file import Header, Writer
from tests.support.system import System
from tests.support.waiting import eventually

from .long_run import LongRun
from .recorded import LARGE_SCALE, Recorder

NEVER = 10**9
CLIENTS = 20
JOBS_PER_S = 160
"""Come and end: a little more than 500 messages."""
BATCHES = 20
"""In each second: the log grows evenly. In one go, a client would hear of a second's messages once."""
NEAR = 5_000
FLAGS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--js-flags=--expose-gc",
    "--enable-precise-memory-info",
]
RENDERED = "html[data-rendered-seq]"
FRAMES = """() => { window.deltas = []; let last = performance.now();
  const note = (now) => { window.deltas.push(now - last); last = now; requestAnimationFrame(note); };
  requestAnimationFrame(note); }"""
Figures = dict[str, Any]


def _jobs_log(path: Path, jobs: int) -> None:
    with path.open("wb") as file:
        writer = Writer(file, Header(source="bench"))
        LongRun(NEVER, lambda entries: writer.add(tuple(entries))).play(jobs)
        writer.finish()


def _events_log(path: Path, events: int) -> None:
    with path.open("wb") as file:
        writer = Writer(file, Header(source="bench"))
        Recorder(lambda entry: writer.add((entry,)), LARGE_SCALE).play(events)
        writer.finish()


@contextlib.contextmanager
def _console(path: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Serve a log; yield the address and the process."""
    command = [sys.executable, "-m", "sluice.services.console", "--log", str(path), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[1].rstrip("/"), psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(20)
        if process.stdout is not None:
            process.stdout.close()


@contextlib.asynccontextmanager
async def _browser() -> AsyncIterator[Any]:
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield browser
        await browser.close()


def _ms(seconds: list[float]) -> Figures:
    ordered = sorted(seconds)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    return {
        "median": round(statistics.median(ordered) * 1e3),
        "p95": round(p95 * 1e3),
        "max": round(ordered[-1] * 1e3),
    }


async def first(jobs: int) -> Figures:
    """Open pages of a log with so many jobs, each in a browser that has nothing cached."""
    found: Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.slog"
        _jobs_log(path, jobs)
        with _console(path) as (address, process):
            begun = time.monotonic()
            async with aiohttp.ClientSession() as http, http.get(f"{address}/api/v1/queues") as response:
                await response.read()
            found["folding_once_s"] = round(time.monotonic() - begun, 1)
            begun = time.monotonic()
            async with aiohttp.ClientSession() as http, http.get(f"{address}/api/v1/overview") as response:
                await response.read()
            found["counting_once_s"] = round(time.monotonic() - begun, 1)
            async with _browser() as browser:
                for page_path in ("/", "/jobs", "/queues", "/pending"):
                    took = []
                    for _ in range(5):
                        context = await browser.new_context()
                        page = await context.new_page()
                        begun = time.monotonic()
                        await page.goto(address + page_path)
                        await page.wait_for_selector(RENDERED, state="attached", timeout=120_000)
                        took.append(time.monotonic() - begun)
                        await context.close()
                    found[f"{page_path} ms"] = _ms(took)
            found["rss_mb"] = round(process.memory_info().rss / 1e6)
    return {"bench": "console first", "jobs": jobs, **found}


async def scrub(events: int) -> Figures:
    """Ask for the past of a long log: anywhere, and near the last moment, as a hand on the strip does."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.slog"
        _events_log(path, events)
        with _console(path) as (address, process):
            async with aiohttp.ClientSession() as http:

                async def asked(seq: int | str) -> float:
                    begun = time.monotonic()
                    async with http.get(f"{address}/api/v1/queues", params={"at": str(seq)}) as response:
                        assert response.status == 200, await response.text()
                        await response.read()
                    return time.monotonic() - begun

                once = await asked("")
                async with http.get(f"{address}/api/v1/whoami") as response:
                    end = (await response.json())["source"]["end"]
                chance, here, near = random.Random(7), end // 2, list[float]()
                anywhere = [await asked(chance.randrange(100, end)) for _ in range(min(60, events // 100))]
                await asked(here)
                for _ in range(min(100, events // 100)):
                    here = min(end, max(100, here + chance.randrange(-NEAR, NEAR)))
                    near.append(await asked(here))
            return {
                "bench": "console scrub",
                "events": events,
                "messages": end,
                "folding_once_s": round(once, 1),
                "anywhere_ms": _ms(anywhere),
                "near_ms": _ms(near),
                "rss_mb": round(process.memory_info().rss / 1e6),
            }


async def live(seconds: int) -> Figures:
    """Let a cell be busy, with clients and a page; tell what that costs the console and the page."""
    with tempfile.TemporaryDirectory() as folder, System(Path(folder)) as system:
        told = Path(folder) / "address"
        unsent: list[Entry] = []
        cell = LongRun(2_000, unsent.extend)
        log = await JetStreamLog(system.url, name="bench").open()
        service = system.start(
            "console", {"CONSOLE_PORT": "0", "CONSOLE_ADDRESS_FILE": str(told), "CONSOLE_NICE": "0"}
        )
        await eventually(told.is_file)
        address, process = told.read_text().rstrip("/"), psutil.Process(service.pid)
        for _ in range(30):
            await _send(log, _second(cell, unsent), 0)
        # Decided beforehand: this process has the clients, too, which would hear nothing meanwhile.
        begun_with, jobs = cell.messages, cell.jobs
        planned = [_second(cell, unsent) for _ in range(seconds)]
        clients = [Client() for _ in range(CLIENTS)]
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as http,
            _browser() as browser,
        ):
            hearing = [asyncio.create_task(client.hear(http, address)) for client in clients]
            page = await (await browser.new_context()).new_page()
            await page.goto(f"{address}/jobs")
            await page.wait_for_selector(RENDERED, state="attached", timeout=120_000)
            await page.evaluate("gc()")
            heap = [await page.evaluate("performance.memory.usedJSHeapSize / 1e6")]
            rss, cpu = [process.memory_info().rss / 1e6], sum(process.cpu_times()[:2])
            await page.evaluate(FRAMES)
            frames, heard = sum(c.frames for c in clients), sum(c.size for c in clients)
            begun = time.monotonic()
            for second, entries in enumerate(planned):
                await _send(log, entries, begun + second)
                if (second + 1) % max(1, seconds // 10) == 0:
                    rss.append(process.memory_info().rss / 1e6)
                    await page.evaluate("gc()")
                    heap.append(await page.evaluate("performance.memory.usedJSHeapSize / 1e6"))
                await asyncio.sleep(max(0.0, begun + second + 1 - time.monotonic()))
            took, used = time.monotonic() - begun, sum(process.cpu_times()[:2]) - cpu
            deltas = await page.evaluate("window.deltas")
            frames = sum(c.frames for c in clients) - frames
            heard = sum(c.size for c in clients) - heard
            end = await log.end()
            await eventually(lambda: all(client.upto >= end for client in clients))
            assert not any(task.done() for task in hearing), "a client was cut off"
            for task in hearing:
                task.cancel()
            await asyncio.gather(*hearing, return_exceptions=True)
        await log.close()
    return {
        "bench": "console live",
        "seconds": round(took),
        "clients": CLIENTS,
        "jobs_per_s": round((cell.jobs - jobs) / took),
        "messages_per_s": round((cell.messages - begun_with) / took),
        "console_cpu_percent": round(used / took * 100),
        "frames_per_client_per_s": round(frames / CLIENTS / took, 1),
        "kb_per_client_per_s": round(heard / CLIENTS / took / 1e3),
        "gaps": sum(client.gaps for client in clients),
        "resyncs": sum(client.resyncs for client in clients),
        "console_rss_mb": [round(one) for one in rss],
        "page_heap_mb": [round(one, 1) for one in heap],
        "page_frames": len(deltas),
        "over_17_ms": sum(d > 17 for d in deltas),
        "over_34_ms": sum(d > 34 for d in deltas),
        "frame_ms": _ms([d / 1e3 for d in deltas]),
        "load": os.getloadavg()[0],
    }


def _second(cell: LongRun, unsent: list[Entry]) -> list[Entry]:
    """Let the jobs of a second come, and return what is said."""
    cell.tick(range(cell.jobs, cell.jobs + JOBS_PER_S))
    said = list(unsent)
    unsent.clear()
    return said


async def _send(log: JetStreamLog, entries: list[Entry], begun: float) -> None:
    """Send what is said in a second, evenly over the one that has *begun*; 0: at once."""
    size = -(-len(entries) // BATCHES)
    for number in range(BATCHES):
        for entry in entries[number * size : (number + 1) * size]:
            await log.append(entry.suffix, entry.payload)
        if begun:
            await asyncio.sleep(max(0.0, begun + (number + 1) / BATCHES - time.monotonic()))


@dataclass
class Client:
    """One reader of the stream: what it has heard, and whether anything is missing in between."""

    frames: int = 0
    resyncs: int = 0
    gaps: int = 0
    """Frames that do not go on where the one before has ended."""
    upto: int = 0
    size: int = 0
    """Bytes that came."""

    async def hear(self, http: aiohttp.ClientSession, address: str) -> None:
        rest = b""
        async with http.get(f"{address}/api/v1/stream") as response:
            # Not by lines: a frame of a busy cell is longer than the client takes for one.
            async for part in response.content.iter_any():
                self.size += len(part)
                *whole, rest = (rest + part).split(b"\n\n")
                for event in whole:
                    self._take(event)

    def _take(self, event: bytes) -> None:
        lines = dict(line.split(b": ", 1) for line in event.split(b"\n") if b": " in line)
        match lines.get(b"event"):
            case b"delta":
                since = int(lines[b"data"][len(b'{"since":') :].split(b",", 1)[0])
                self.frames += 1
                self.gaps += since != self.upto
            case b"resync":
                self.resyncs += 1
        self.upto = int(lines.get(b"id", self.upto))


def main(arguments: list[str]) -> Figures:
    what, ways = arguments[0], {"first": (first, 50_000), "scrub": (scrub, 1_000_000), "live": (live, 60)}
    way, default = ways[what]
    return asyncio.run(way(int(arguments[1]) if len(arguments) > 1 else default))


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
