"""`python -m tests.fault.bridge NAME DIRECTORY`: an executor of the SDK, as a bridge to Slurm is.

Its work is time: a job runs for the seconds that its manifest names, whatever its size, and ends with this
process. What it runs it writes into a diary below DIRECTORY.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

import msgspec

from sluice.protocol.dispatch import DispatchEntry
from sluice.sdk import AsyncClient, Executor, ExecutorSettings, Outcome, Work

from .configuration import BRIDGE, RUNS
from .observed import LOOK_S, Diary


class Runner:
    def __init__(self, diary: Diary) -> None:
        self._diary = diary

    async def run(self, work: Work) -> Outcome:
        number = self._diary.begin(work.entry)
        done = False

        def resized(entry: DispatchEntry) -> None:
            nonlocal number
            self._diary.end(number)
            number = self._diary.begin(entry)
            saying.append(asyncio.create_task(work.ready()))

        saying: list[asyncio.Task[None]] = []
        work.on_resize = resized
        try:
            manifest = msgspec.json.decode(await work.manifest())
            await work.ready()
            await asyncio.sleep(float(manifest["metadata"]["annotations"][RUNS]))
            done = True
        finally:
            self._diary.end(number, done=done)
            for task in saying:
                task.cancel()
        return Outcome()


async def _beat(diary: Diary) -> None:
    while True:
        diary.beat()
        await asyncio.sleep(LOOK_S)


async def main(name: str, directory: Path) -> None:
    diary = Diary(directory / f"{name}-{os.getpid()}.diary", name)
    beating = asyncio.create_task(_beat(diary))
    async with AsyncClient(source=f"bridge/{name}") as client:
        settings = ExecutorSettings(flavors=(BRIDGE,), capacity=12)
        executor = Executor(client, name, Runner(diary).run, settings)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, executor.stop)
        await executor.serve()
    beating.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
