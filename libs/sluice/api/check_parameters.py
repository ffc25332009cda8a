"""Parameters of the checks that Sluice ships: Budget, WebhookCheckConfig, CellLadder (`sluice.dev/v1alpha1`).

Others', `ProvisioningRequestConfig` and `MultiKueueConfig`, are Kueue's (`sluice.api.kueue`). An
AdmissionCheck names the object in `spec.parameters`, with apiGroup `sluice.dev`.
"""

from typing import Literal

from .kueue import KueueObject, RetryStrategy
from .meta import Int32, Manifest, Seconds, always
from .quantity import Quantity
from .sluice_v1 import API_VERSION

Weekday = Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


class BudgetScope(Manifest, frozen=True):
    """Whose consumption counts: what is left empty matches everything; something must be named."""

    namespace: str = ""
    local_queue: str = ""
    """Of `namespace`, which it needs."""
    cluster_queue: str = ""


class BudgetPeriod(Manifest, frozen=True):
    """Begins at midnight of `time_zone`, a name of the IANA database."""

    unit: Literal["Weekly", "Monthly"] = "Monthly"
    time_zone: str = "UTC"
    start_weekday: Weekday | None = None
    """Of Weekly; Monday by default."""
    start_day_of_month: Int32 | None = None
    """Of Monthly, 1 to 28; 1 by default."""


class ResourceHours(Manifest, frozen=True):
    """Hours of a core, a GiB of memory or storage, a unit of all else. Empty flavor: all together."""

    resource: str
    hours: Quantity
    flavor: str = ""


class BudgetLimits(Manifest, frozen=True):
    """All of them hold."""

    cost: Quantity | None = None
    resource_hours: list[ResourceHours] = []


class FlavorPrice(Manifest, frozen=True):
    """Price of an hour of one core, one GiB, one unit. Empty flavor: those without a price of their own."""

    resource: str
    per_hour: Quantity
    flavor: str = ""


class PrometheusSource(Manifest, frozen=True):
    """Reads the consumption of the present period as one number, in the unit of the budget's only limit.

    In `query`, `$period` becomes the seconds since the period began, with an s (`3600s`), `$start` and
    `$end` its bounds as Unix seconds.
    """

    url: str
    query: str
    interval_seconds: Seconds = 60
    timeout_seconds: Seconds = 10
    failure_policy: Literal["Hold", "Allow"] = "Hold"
    """What becomes of new workloads while it cannot be read; running ones are left alone."""


class BudgetSource(Manifest, frozen=True):
    """Where the consumption is read; by default it is computed from the log."""

    prometheus: PrometheusSource | None = None


class BudgetSpec(Manifest, frozen=True):
    """Who may consume how much in which period, at which prices, and what happens then."""

    scope: BudgetScope = BudgetScope()
    period: BudgetPeriod = BudgetPeriod()
    limits: BudgetLimits = BudgetLimits()
    currency: str = ""
    """For messages only."""
    prices: list[FlavorPrice] = []
    on_exceeded: Literal["Hold", "Evict"] = "Hold"
    """Hold: running workloads go on. Evict: they are stopped and requeued for the next period."""
    assumed_seconds: Seconds | None = None
    """Estimate for workloads without a maximum execution time; none: they commit nothing in advance."""
    release_quota_after_seconds: Seconds | None = None
    """How long a held workload keeps its quota reserved; then it is requeued. None: until it may run."""
    retry_after_seconds: int | None = None
    """When what was evicted or requeued for the budget is tried again; None: when the period has ended."""
    source: BudgetSource = BudgetSource()


class Budget(KueueObject, frozen=True):
    """Parameters of a check that holds jobs of whoever has used up a budget (`sluice.dev/budget`)."""

    api_version: str = always(API_VERSION)
    kind: str = always("Budget")
    spec: BudgetSpec = BudgetSpec()


class WebhookCheckConfigSpec(Manifest, frozen=True):
    """How an HTTP endpoint is asked.

    A failure is no answer in time, a status that is no success, or an answer that cannot be read. After
    `retry_strategy.backoff_limit_count` of them in a row `failure_policy` says what becomes of the workload.
    """

    url: str = ""
    timeout_seconds: Seconds = 10
    retry_strategy: RetryStrategy = RetryStrategy(
        backoff_limit_count=5, backoff_base_seconds=1, backoff_max_seconds=60
    )
    failure_policy: Literal["Hold", "Reject", "Allow"] = "Hold"
    poll_seconds: Seconds = 10
    """Between questions while the answer is Pending or 202."""
    recheck_seconds: Seconds | None = None
    """Between questions about a workload that was approved; None: it is not asked about again."""
    cancel_url: str = ""
    """Told when the workload is evicted, finished or deleted; empty: nobody is."""
    signing_secret: str = ""
    """Name of the secret that requests are signed with, as the service has it; empty: not signed."""
    headers: dict[str, str] = {}
    max_response_bytes: Int32 = 65536


class WebhookCheckConfig(KueueObject, frozen=True):
    """Parameters of a check that asks an HTTP endpoint (`sluice.dev/webhook`)."""

    api_version: str = always(API_VERSION)
    kind: str = always("WebhookCheckConfig")
    spec: WebhookCheckConfigSpec = WebhookCheckConfigSpec()


Rung = Literal["Fits", "Borrows", "Preempts"]


RUNGS: tuple[Rung, ...] = ("Fits", "Borrows", "Preempts")


class CellLadderSpec(Manifest, frozen=True):
    """In which cells a job is offered room, and what each may do for it, rung by rung.

    On the first rung, Fits, a cell neither borrows nor preempts for the job; on Borrows it may borrow; on
    Preempts, where one cell is asked at a time, it may preempt. Without room on any rung the offers stand.
    """

    cells: list[str] = []
    """Names of MultiKueueClusters, the most preferred one first."""
    rungs: list[Rung] = []
    """In this order; empty: all three."""
    step_size: Int32 | None = None
    """How many cells are asked at once; None: all of them."""
    decide_within_seconds: Seconds = 1
    """How long a less preferred cell that has room waits for the answer of a more preferred one."""
    preempt_within_seconds: Seconds = 300
    """How long a cell has for making room by preemption, before the next one is asked."""
    stand_seconds: Seconds = 600
    """How long offers stand in queues, before the ladder is begun anew."""
    lost_after_seconds: Seconds = 900
    """How long a cell may be out of reach before its jobs begin anew elsewhere."""
    retry_after_seconds: Seconds = 10
    """When a job that a cell has evicted is tried again; for as long the cell is asked last."""


class CellLadder(KueueObject, frozen=True):
    """Parameters of a check that places jobs in other cells (`sluice.dev/cells`)."""

    api_version: str = always(API_VERSION)
    kind: str = always("CellLadder")
    spec: CellLadderSpec = CellLadderSpec()
