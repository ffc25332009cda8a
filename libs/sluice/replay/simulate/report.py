"""Results of checks and runs, as plain data."""

from typing import Any

import msgspec

from sluice.replay.verify.whole_log import Checked

from . import job_waits
from .what_if import WhatIf


def checked(found: Checked) -> dict[str, Any]:
    """Return a check as plain data."""
    row: dict[str, Any] = {
        "service": found.writer,
        "from": found.start,
        "steps": found.steps,
        "events": found.events,
        "divergence": None,
    }
    divergence = found.divergence
    if divergence is not None:
        row["divergence"] = {
            "seq": divergence.seq,
            "upto": divergence.upto,
            "at": divergence.at,
            "reason": divergence.reason,
            "expected": _plain(divergence.expected),
            "found": _plain(divergence.found),
            "inputs": [{"seq": e.seq, "subject": e.suffix} for e in found.inputs],
        }
    return row


def _plain(events: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(events))


def compared(found: WhatIf, per_job: str | None = None, most: int | None = None) -> dict[str, Any]:
    """Return a what-if as plain data.

    *per_job*: a pattern of jobs whose waits are told, too; None: of none. *most*: of so many jobs at most.
    """
    told: dict[str, Any] = {}
    if per_job is not None:
        rows = job_waits.rows(found, per_job)
        told = {"jobs": job_waits.plain(rows[:most]), "jobsFound": len(rows)}
    return told | {
        "runs": [
            {
                "name": r.name,
                "coversSeconds": round(r.covers_s, 3),
                "assumedRunTimes": r.assumed,
                "assumedVerdicts": r.guessed,
                "cutOff": None if r.cut_off is None else {"notEnded": dict(r.cut_off)},
                **r.numbers,
            }
            for r in found.runs
        ],
        "sameDecisions": found.same_decisions,
        "reach": {"jobs": len(found.reach), "of": found.reach.of} if found.reach is not None else None,
        "followed": [checked(c) for c in found.followed],
    }
