"""One round of retention that is killed behind its n-th step: `killed_round URL ARCHIVE BYTES N`."""

import asyncio
import os
import signal
import sys
import time

from sluice.retention.archive import Archive
from sluice.retention.cycle import round_of
from sluice.retention.live import opened
from sluice.retention.policy import RetentionPolicy
from sluice.retention.stores import held, store_at


async def run(url: str, archive: str, most: int, kill_at: int) -> None:
    steps = 0

    def done(what: str) -> None:
        nonlocal steps
        steps += 1
        if steps == kill_at:
            print(what, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    store = store_at(archive)
    async with held(store), opened(url, "main") as cell:
        await round_of(
            cell,
            Archive(store, "main"),
            RetentionPolicy(max_bytes=most, keep_s=0),
            time.time_ns() // 1000 + 1_000_000,
            without_api=True,
            done=done,
        )
    print("through", flush=True)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
