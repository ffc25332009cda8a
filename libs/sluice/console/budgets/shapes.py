"""Standings of budgets, as structs."""

import msgspec

from sluice.console.shapes import Envelope, Struct


class BudgetAmount(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Money, or hours of a resource."""

    text: str
    value: float
    """Rounded; in the unit of its limit."""


class BudgetLimit(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One limit, in the period that is asked about."""

    unit: str
    """A currency, or h."""
    resource: str
    """Of hours."""
    flavor: str
    """Of hours; empty: of all flavors."""
    limit: BudgetAmount
    used: BudgetAmount | None
    """None: the log does not tell it."""
    committed: BudgetAmount
    """What running workloads may still use. Who was let in and is not admitted yet only the check knows."""
    left: BudgetAmount | None
    per_hour: BudgetAmount
    """What is being used now."""
    reached_at: str
    """When it is used up as things go; empty: not in this period."""


class Consumer(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A local queue's part of what was used in the period; amounts in the order of the limits."""

    namespace: str
    local_queue: str
    cluster_queue: str
    used: list[BudgetAmount]
    per_hour: list[BudgetAmount]


class RunningPart(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A workload that consumes now."""

    job: str
    """Of a workload without one, its own key."""
    cluster_queue: str
    since: str
    ends: str
    """When it has run as long as it may, or is assumed to; empty: nobody knows."""
    per_hour: list[BudgetAmount]


class Held(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A job that the budget keeps from starting."""

    job: str
    message: str


class BudgetPoint(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """What had been used since the period began; in the order of the limits."""

    time: str
    used: list[float]


class BudgetRow(Struct, frozen=True, kw_only=True, omit_defaults=False):
    name: str
    scope: str
    """As `sluice get budgets` writes it."""
    unit: str
    """Weekly or Monthly."""
    start: str
    end: str
    on_exceeded: str
    used_up: bool
    problem: str
    """Why the log does not tell all of it."""
    limits: list[BudgetLimit]
    consumers: list[Consumer]
    """Who has used most of the first limit first."""
    running: list[RunningPart]
    held: list[Held]
    points: list[BudgetPoint]


class BudgetsAnswer(Envelope, frozen=True, kw_only=True):
    now: str
    """The moment of the amounts: of a cell that goes on, the console's clock."""
    budgets: list[BudgetRow]
    more: dict[str, int] = msgspec.field(default_factory=dict)
    """Name -> how many consumers and running workloads are left out."""
