"""The questions of the HTTP API: path, parameters, answer. Server and OpenAPI document are made of it."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from . import answers, series
from .actions import answering
from .actions.shapes import ActionDone, ActionPreview, ActionRequest
from .asked import Asked
from .budgets import answering as budgeting
from .budgets.shapes import BudgetsAnswer
from .handlers import Handlers

PREFIX = "/api/v1"

PARAMETERS = {
    "at": "The moment asked about: a sequence, an RFC 3339 time, 14:03 (the last one), 10m (ago) or now.",
    "limit": "Most items of a page; 100, and at most 1000.",
    "continue": "What `continue` of the page before said.",
    "namespace": "Only of this namespace.",
    "queue": "Only of this cluster queue (jobs: or local queue).",
    "reason": "Only those that wait for this reason.",
    "group": "What to gather by: `equal` for who waits; `queue`, `namespace`, `phase` or a label for jobs.",
    "phase": "Only of these phases, with commas between.",
    "label": "A label selector, as `sluice get -l` takes it.",
    "search": "Only names that hold this text.",
    "sort": "name, created, priority, phase, queue, changed or waited; with - in front the other way round.",
    "from": "The first sequence; of a diff a moment.",
    "to": "The last sequence; of a diff a moment.",
    "step": "Messages between two points of a series; by default there are about 100 points.",
    "writer": "Only of these subjects, with commas between: config, slices, scheduler, job, ...",
    "type": "Only events of these types, with commas between.",
    "about": "Only what speaks of this job, workload or queue.",
    "order": "desc (newest first) or asc.",
    "buckets": "Most stretches that the log is cut into.",
    "section": "A section of the state; may be given more than once.",
    "name": "All that has this name.",
    "labelSelector": "As `sluice get -l` takes it.",
    "fieldSelector": "As `sluice get --field-selector` takes it.",
}


class Route(NamedTuple):
    """One question: how it is asked, and what answers it."""

    path: str
    answer: Callable[[Handlers, Asked], Awaitable[Any]]
    kind: type[Any] | None
    summary: str
    query: tuple[str, ...] = ("at",)
    method: str = "GET"
    body: type[Any] | None = None
    heavy: bool = False


_PAGED = ("at", "limit", "continue")

ROUTES: tuple[Route, ...] = (
    Route("/whoami", Handlers.whoami, answers.WhoAmI, "Who asks, what may be done, and of what cell", ()),
    Route("/overview", Handlers.overview, answers.OverviewAnswer, "What goes on, and what is wrong"),
    Route("/quota", Handlers.quota, answers.QuotaAnswer, "The tree of cohorts and queues with their quota"),
    Route("/queues", Handlers.queues, answers.QueuesAnswer, "All cluster queues"),
    Route("/queues/{name}", Handlers.queue, answers.QueueAnswer, "One cluster queue, and who is in it"),
    Route(
        "/queues/{name}/series",
        series.queue,
        answers.SeriesAnswer,
        "A cluster queue over time",
        ("at", "from", "to", "step"),
    ),
    Route(
        "/cohorts/{name}/series",
        series.cohort,
        answers.SeriesAnswer,
        "A cohort and its members over time",
        ("at", "from", "to", "step"),
    ),
    Route("/cohorts", Handlers.cohorts, answers.CohortsAnswer, "All cohorts"),
    Route("/cohorts/{name}", Handlers.cohort, answers.CohortAnswer, "One cohort, and who lends to whom"),
    Route(
        "/pending",
        Handlers.pending,
        answers.PendingAnswer,
        "Who waits for quota, in order, and why",
        (*_PAGED, "queue", "namespace", "reason", "group"),
    ),
    Route(
        "/jobs",
        Handlers.jobs,
        answers.JobsAnswer,
        "Jobs",
        (*_PAGED, "namespace", "queue", "phase", "label", "search", "sort", "group"),
    ),
    Route("/jobs/{namespace}/{name}", Handlers.job, answers.JobAnswer, "One job"),
    Route(
        "/jobs/{namespace}/{name}/events",
        Handlers.job_events,
        answers.EventsAnswer,
        "What happened to a job, oldest first",
        _PAGED,
    ),
    Route(
        "/jobs/{namespace}/{name}/timeline",
        Handlers.job_timeline,
        answers.TimelineAnswer,
        "A job's life as lanes and marks",
    ),
    Route(
        "/jobs/{namespace}/{name}/spec", Handlers.job_spec, answers.SpecAnswer, "A job as it was submitted"
    ),
    Route(
        "/jobs/{namespace}/{name}/why",
        Handlers.why,
        answers.ReportAnswer,
        "Why a job waits, and what would let it start: `sluice why`",
        heavy=True,
    ),
    Route(
        "/simulate",
        Handlers.simulate,
        answers.ReportAnswer,
        "What would become of a job: `sluice simulate`",
        (),
        "POST",
        answers.SimulateRequest,
        heavy=True,
    ),
    Route(
        "/what-if",
        Handlers.what_if,
        answers.ReportAnswer,
        "The log's jobs under other rules: `sluice replay what-if`",
        (),
        "POST",
        answers.WhatIfRequest,
        heavy=True,
    ),
    Route(
        "/actions/preview",
        answering.preview,
        ActionPreview,
        "The command of an action, and what it would do",
        (),
        "POST",
        ActionRequest,
        heavy=True,
    ),
    Route(
        "/actions",
        answering.act,
        ActionDone,
        "Do something: what comes of it is in the log",
        (),
        "POST",
        ActionRequest,
    ),
    Route(
        "/log",
        Handlers.log,
        answers.LogAnswer,
        "Events of the log",
        ("at", "from", "to", "writer", "type", "about", "order", "limit"),
    ),
    Route(
        "/log/{seq}",
        Handlers.commit,
        answers.CommitAnswer,
        "One message, its causes and consequences",
        ("about",),
    ),
    Route(
        "/density",
        Handlers.density,
        answers.DensityAnswer,
        "How much of what there is in equal stretches of the log",
        ("at", "from", "to", "buckets"),
    ),
    Route(
        "/preemptions",
        Handlers.preemptions,
        answers.PreemptionsAnswer,
        "Who preempted whom, and what goes in circles",
        (*_PAGED, "queue"),
        heavy=True,
    ),
    Route("/checks", Handlers.checks, answers.ChecksAnswer, "Admission checks, and who waits for them"),
    Route(
        "/budgets",
        budgeting.budgets,
        BudgetsAnswer,
        "What budgets have left, who consumes it, and since when: as far as the log tells",
    ),
    Route(
        "/diff",
        Handlers.diff,
        answers.DiffAnswer,
        "What changed between two moments: `sluice replay diff`",
        ("from", "to"),
        heavy=True,
    ),
    Route("/system", Handlers.system, answers.SystemAnswer, "Services, agents, the log, the console itself"),
    Route(
        "/state",
        Handlers.state,
        answers.StateAnswer,
        "The whole cell, or what has a name: `sluice replay state`",
        ("at", "section", "name"),
        heavy=True,
    ),
    Route(
        "/objects/{kind}",
        Handlers.objects,
        answers.ObjectsAnswer,
        "Objects of a kind: `sluice get`",
        (*_PAGED, "namespace", "labelSelector", "fieldSelector"),
    ),
    Route(
        "/objects/{kind}/{name}",
        Handlers.object,
        answers.ObjectAnswer,
        "One object: `sluice get KIND NAME`",
        ("at", "namespace"),
    ),
)

SESSIONS: tuple[Route, ...] = (
    Route(
        "/login", Handlers.login, None, "Exchange the token for a cookie", (), "POST", answers.LoginRequest
    ),
    Route("/logout", Handlers.logout, None, "End the session", (), "POST"),
)
