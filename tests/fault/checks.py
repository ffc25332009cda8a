"""A fault run of admission checks: controllers and the service are killed while jobs pass three checks each.

Every job must end once: finished, deleted, or deactivated because a check has rejected it. Nothing may be
admitted on what a check said of an earlier reservation; what a check has approved stays approved as long as
the reservation lasts, whoever is away; and in the end nobody waits for anything (`check_audit`).
"""

from typing import Any

from .chaos import LEAST
from .configuration import SIMULATED
from .run import Plan

CHECKS = ("a", "b", "c")
DAMAGED = ("admission_check", "scheduler")
DECK = {
    "kill leader": 4,
    "kill one": 5,
    "kill all": 2,
    "kill leader and server": 2,
    "kill server": 2,
    "kill controller": 8,
    "kill controller for long": 6,
    "two leaders": 2,
    "lose checks": 5,
    "lose dispatch": 2,
    "lose leases": 2,
    "lose heartbeats": 3,
    "lose snapshots": 2,
}
"""How often each fault comes in one round of about 40 kills."""


def check_plan(kills: int, seed: int, least: int = LEAST, **others: Any) -> Plan:
    """Return the plan of a run of checks."""
    return Plan(
        name="fault of checks",
        kills=kills,
        seed=seed,
        least=least,
        deck=others.pop("deck", DECK),
        executors=False,
        checks=dict.fromkeys(SIMULATED, CHECKS),
        damaged=others.pop("damaged", DAMAGED),
        **others,
    )
