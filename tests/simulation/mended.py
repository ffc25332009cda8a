"""Faults that were mended, each with the few lines that take its mend out again (`mutants` plays them).

They stand in `mended.txt`, as in a patch: name and where to look for it, what the fault is, and for each file
what is taken out (`-`) and what stood there instead (`+`; without it the lines go).

A number with a word is a part of the fault that has a mend of its own. GATE: the gate ConcurrentAdmission is
switched off under families that run. NEW: found by the simulator itself. The others are not faults of the
past, but what everything rests on.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """`changes`: (file, text, what stood there instead)."""

    name: str
    what: str
    changes: tuple[tuple[str, str, str], ...]
    theme: str = ""
    """Seeds with this theme (`swarm.THEMES`) are tried first."""
    scene: str = ""
    """Seeds that open with this scene (`scenes.SCENES`) are tried before those."""
    seed: int = 0
    """The one that has found it, which is tried before all others; 0: none yet."""


_CHANGE = re.compile(r"in (?P<file>.+)\n|(?P<text>(?:-.*\n)+)(?P<instead>(?:\+.*\n)*)")


def _mutant(paragraph: str) -> Mutant:
    head, what, changes = re.sub(r"^#.*\n", "", f"{paragraph}\n", flags=re.MULTILINE).split("\n", 2)
    name, *hints = head.split(" ")
    given = dict(hint.split("=") for hint in hints)
    seed = int(given.pop("seed", "0"))
    return Mutant(name, what, tuple(_changes(changes)), **given, seed=seed)


def _changes(lines: str) -> Iterator[tuple[str, str, str]]:
    assert not (odd := _CHANGE.sub("", lines).strip("\n")), odd
    file = ""
    for found in _CHANGE.finditer(lines):
        if found["file"]:
            file = found["file"]
            continue
        text, instead = (
            re.sub(r"^[-+]", "", found[part], flags=re.MULTILINE) for part in ("text", "instead")
        )
        # Where something takes its place, it may be a part of a line.
        yield (file, text[:-1], instead[:-1]) if instead else (file, text, "")


MENDED = tuple(map(_mutant, Path(__file__).with_suffix(".txt").read_text().strip().split("\n\n")))

ELSEWHERE: tuple[tuple[str, str, str], ...] = (
    (
        "NEW-remembered",
        "a submission ends the memory of preemptions in a racing queue, too: no seed comes to it",
        "tests/unit/core/variants/whole/test_sharing.py",
    ),
    (
        "NEW-withheld-beside-promises",
        "quota lies idle that is withheld for a head, beside a promise: its seed needs 3,513 steps",
        "tests/unit/core/scheduler/whole/test_pending_preemptions.py",
    ),
    (
        "NEW-growth-kept",
        "a job is stopped for what is kept for its growth: no seed that is known comes to it",
        "tests/unit/core/scheduler/whole/test_workload_slices.py",
    ),
    (
        "BUDGET-crossed",
        "pods that were scaled away before their reservation was told: a crossing that seeds seldom come to",
        "tests/unit/core/budgets/test_consumption.py",
    ),
    (
        "NEW-own-turn",
        "what victims give up while another variant's turn goes on: seeds seldom come to it",
        "tests/unit/core/variants/whole/test_preferred_first.py",
    ),
    (
        "NEW-inactive-keeps",
        "what is kept in a queue that admits nobody: seeds seldom come to it",
        "tests/unit/core/scheduler/whole/test_waiting.py",
    ),
    (
        "NEW-after-all",
        "who preempts after its turn: seeds seldom come to it",
        "tests/unit/core/variants/whole/test_preferred_first.py",
    ),
    (
        "NEW-never-seen",
        "an executor that claims and never puts a heartbeat: its seed does not come to it any more",
        "tests/unit/log/runtime/test_presence.py",
    ),
    (
        "B8",
        "errors, and what variants look like: texts of one manifest",
        "tests/unit/core/variants/whole/test_families.py",
    ),
    (
        "B13",
        "parameters of a team's own kind: a function of two manifests",
        "tests/unit/core/config/whole/test_custom_kinds.py",
    ),
    ("B14", "what submit and job scale report: texts", "tests/e2e/test_job_manifests.py"),
    (
        "B15",
        "how several Retries are named, and other messages: texts",
        "tests/unit/core/checks/whole/test_retry.py",
    ),
    (
        "B17",
        "the field form of constraints, and refusals: texts of one manifest",
        "tests/unit/api/test_constraints.py",
    ),
    (
        "B18",
        "events, messages and conditions as Kueue's: texts",
        "tests/unit/core/views/whole/test_notices.py",
    ),
)
"""(fault, the part of it in which no history plays a role, the tests that hold it)."""

__all__ = ["ELSEWHERE", "MENDED", "Mutant"]
