"""`python -m tests.unit.replay.record LOG.JSONL`: make the golden logs anew from the log of a fault run.

Only when decisions change on purpose: run `python -m tests.fault --kills 10 --least 0 --keep` and give its
`log.jsonl`.
"""

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sluice.core.scheduler.decider import Scheduler
from sluice.core.slices.decider import SliceAggregator
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold
from sluice.replay.source import json_lines
from tests.support.verify import entries_for, verify

LOGS = Path(__file__).parent / "logs"
DECIDERS: tuple[type[Decider[Any]], ...] = (Scheduler, SliceAggregator)
LEAST = 260
"""Messages; the log is cut where all is settled first after so many."""
RIGHT, WRONG = b'"usage":{"cpu":1000}', b'"usage":{"cpu":1001}'


def digest(fold: Fold[Any]) -> str:
    return hashlib.sha256(fold.decider.dump(fold.state)).hexdigest()


def digests(entries: Sequence[Entry]) -> dict[str, str] | None:
    """Return writer -> digest of its state at the end of the log; None if it has not settled there.

    Raises:
        SystemExit: a writer's decisions do not come out as they are.
    """
    found = {}
    for kind in DECIDERS:
        decider = kind()
        verdict = verify(decider, entries_for(decider, entries))
        if verdict.divergence is not None:
            sys.exit(f"{decider.writer}: {verdict.divergence}")
        if verdict.unsettled:
            return None
        found[decider.writer] = digest(verdict.fold)
    return found


def main(path: Path) -> None:
    with path.open("rb") as file:
        whole = list(json_lines.read(file))
    end = LEAST
    while (found := digests(whole[:end])) is None:
        end += 1
    entries = whole[:end]
    with (LOGS / "takeovers.jsonl").open("wb") as file:
        json_lines.write(entries, file)
    (LOGS / "takeovers.sha256").write_text("".join(f"{sha}  {name}\n" for name, sha in found.items()))
    place = next(
        index
        for index, entry in enumerate(entries)
        if entry.suffix == "scheduler" and RIGHT in entry.payload and index > LEAST // 3
    )
    changed = entries[place]._replace(payload=entries[place].payload.replace(RIGHT, WRONG, 1))
    with (LOGS / "changed-event.jsonl").open("wb") as file:
        json_lines.write([*entries[:place], changed], file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
