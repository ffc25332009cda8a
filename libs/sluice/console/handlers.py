"""One method for each question of the HTTP API."""

from collections.abc import Callable
from typing import Any

import msgspec
import psutil
from aiohttp import web

from sluice import __version__
from sluice.api.errors import UNREADABLE
from sluice.api.yaml import YamlTextError, plain_documents
from sluice.events.base import JobKey
from sluice.events.codec import rfc3339
from sluice.log.runtime.question_pool import QuestionPool
from sluice.protocol.subjects import job_suffix
from sluice.readmodel.objects import NAMESPACED_KINDS
from sluice.readmodel.world import World
from sluice.replay.history import causes
from sluice.replay.source import moments
from sluice.replay.source.source import Source
from sluice.replay.views.describe import SECTIONS

from . import answers, heavy, job_list, lanes, log_view, pages
from .access import Access, User, cookie
from .actions.actor import Actor
from .actions.shapes import NAMES as ACTIONS
from .asked import Asked
from .budgets.books import Books
from .cell import Looked, sequence
from .problems import NotFoundError, ProblemError
from .questions import answer_to
from .quota import QuotaTree
from .redaction import Covered, environment

Plain = dict[str, Any]

CONFIG_SHOWN = 10


class Handlers:
    """Answers questions about one cell."""

    def __init__(
        self, cell: Looked, access: Access, questions: QuestionPool, actor: Actor | None = None
    ) -> None:
        """*actor*: does what admins ask for; None: the console only shows."""
        self.cell, self.access, self.questions, self.actor = cell, access, questions, actor
        self.shown: Source = Covered(cell.source, environment) if access.hides_environment else cell.source
        """The log as people see it."""
        self.books = Books(cell.source)
        self.clients = 0
        """Streams that are open."""

    # What all answers share

    async def seen[A: answers.Envelope](
        self, asked: Asked, kind: type[A], question: Callable[[World], Plain]
    ) -> A:
        """Return *question*'s answer about the world that `?at=` means, in its envelope."""
        seq = await sequence(self.cell, asked.text("at"))

        def enveloped(world: World) -> A:
            found = question(world)
            return kind(
                upto=world.seq,
                time=rfc3339(world.at) if world.at else "",
                live=self.cell.live and not seq,
                lag=0 if seq else self.cell.lag,
                **found,
            )

        return await self.cell.ask(seq, enveloped)

    async def _head(self, asked: Asked) -> tuple[int, str, bool]:
        """Return sequence and time that are asked about, and whether that is the end of a live cell."""
        seq = await sequence(self.cell, asked.text("at"))
        upto, at = await self.cell.ask(seq, lambda world: (world.seq, world.at))
        return upto, rfc3339(at) if at else "", self.cell.live and not seq

    async def heavy[A: answers.Envelope](
        self, asked: Asked, kind: type[A], key: tuple[Any, ...], work: Callable[[int], Any], **fields: Any
    ) -> A:
        """Return the answer that a process of its own finds for `?at=`."""
        upto, time, live = await self._head(asked)
        found = await answer_to(self.questions, (upto, *key), heavy.apart(lambda: work(upto)))
        return kind(upto=upto, time=time, live=live, lag=0, **fields, **found)

    # The cell

    async def whoami(self, asked: Asked) -> answers.WhoAmI:
        user: User = asked.user
        source = self.cell.source
        acts = self.actor is not None and user.role == "admin"
        first, last = await self.cell.read(
            lambda: (moments.moment_of(source, source.first), moments.moment_of(source, source.end))
        )
        return answers.WhoAmI(
            user=user.name,
            role=user.role,
            auth=self.access.auth,
            read_only=not acts,
            actions=list(ACTIONS) if acts else [],
            action_token=self.access.action_token if acts else "",
            cell=self.cell.cell,
            source=answers.SourceInfo(
                kind=self.cell.kind,
                name=self.cell.name,
                first=source.first,
                end=source.end,
                first_time=rfc3339(first),
                end_time=rfc3339(last),
                redacted=source.header.redacted,
            ),
            version=__version__,
        )

    async def overview(self, asked: Asked) -> answers.OverviewAnswer:
        upto, _, _ = await self._head(asked)
        source = self.shown
        config = await self.cell.read(
            lambda: log_view.page(
                source, source.first, upto, writers=frozenset({"config"}), limit=CONFIG_SHOWN
            )[0]
        )
        return await self.seen(
            asked, answers.OverviewAnswer, lambda world: pages.overview(world) | {"configuration": config}
        )

    async def quota(self, asked: Asked) -> answers.QuotaAnswer:
        def found(world: World) -> Plain:
            tree = QuotaTree(world)
            return {"nodes": tree.nodes(), "flavors": tree.flavors(world)}

        return await self.seen(asked, answers.QuotaAnswer, found)

    async def queues(self, asked: Asked) -> answers.QueuesAnswer:
        return await self.seen(asked, answers.QueuesAnswer, lambda world: {"queues": pages.queue_rows(world)})

    async def queue(self, asked: Asked) -> answers.QueueAnswer:
        return await self.seen(
            asked, answers.QueueAnswer, lambda world: pages.queue_page(world, asked.part("name"))
        )

    async def cohorts(self, asked: Asked) -> answers.CohortsAnswer:
        def found(world: World) -> Plain:
            return {"cohorts": [row for row in QuotaTree(world).nodes() if row.kind == "Cohort"]}

        return await self.seen(asked, answers.CohortsAnswer, found)

    async def cohort(self, asked: Asked) -> answers.CohortAnswer:
        return await self.seen(
            asked, answers.CohortAnswer, lambda world: pages.cohort_page(world, asked.part("name"))
        )

    async def pending(self, asked: Asked) -> answers.PendingAnswer:
        start, limit = asked.start(), asked.limit()
        return await self.seen(
            asked,
            answers.PendingAnswer,
            lambda world: pages.pending_page(
                world,
                queue=asked.text("queue"),
                namespace=asked.text("namespace"),
                reason=asked.text("reason"),
                equal=asked.choice("group", ("", "equal")) == "equal",
                start=start,
                limit=limit,
            ),
        )

    async def jobs(self, asked: Asked) -> answers.JobsAnswer:
        sort = asked.text("sort") or "name"
        if sort.removeprefix("-") not in job_list.SORTS:
            raise ProblemError(f"sort={sort}: want one of {', '.join(job_list.SORTS)}")
        start, limit = asked.start(), asked.limit()
        return await self.seen(
            asked,
            answers.JobsAnswer,
            lambda world: job_list.jobs_page(
                world,
                namespace=asked.text("namespace"),
                queue=asked.text("queue"),
                phases=asked.words("phase"),
                label=asked.text("label"),
                search=asked.text("search"),
                sort=sort,
                group=asked.text("group"),
                start=start,
                limit=limit,
            ),
        )

    # One job

    async def job(self, asked: Asked) -> answers.JobAnswer:
        key = asked.key()
        return await self.seen(
            asked, answers.JobAnswer, lambda world: pages.job_page(world, key) | {"history": []}
        )

    async def _history(self, asked: Asked) -> tuple[list[causes.Happening], int, str, bool]:
        upto, time, live = await self._head(asked)
        key, source = asked.key(), self.shown
        found = await self.cell.read(lambda: [h for h in causes.history(source, [key]) if h.seq <= upto])
        if not found:
            raise NotFoundError("job", key)
        return found, upto, time, live

    async def job_events(self, asked: Asked) -> answers.EventsAnswer:
        found, upto, time, live = await self._history(asked)
        start, limit = asked.start(), asked.limit()
        page = [log_view.event_of(happening, 0) for happening in found[start : start + limit]]
        more = str(start + limit) if start + limit < len(found) else ""
        return answers.EventsAnswer(
            upto=upto, time=time, live=live, lag=0, items=page, total=len(found), continue_=more
        )

    async def job_timeline(self, asked: Asked) -> answers.TimelineAnswer:
        found, upto, time, live = await self._history(asked)
        drawn = lanes.timeline(found)
        return answers.TimelineAnswer(
            upto=upto,
            time=time,
            live=live,
            lag=0,
            from_=rfc3339(found[0].at),
            to=rfc3339(max(h.at for h in found)),
            lanes=drawn.lanes,
            marks=drawn.marks,
        )

    async def job_spec(self, asked: Asked) -> answers.SpecAnswer:
        seq = await sequence(self.cell, asked.text("at"))
        place, manifest = await self.submitted(asked.key(), seq, self.shown)
        return await self.seen(asked, answers.SpecAnswer, lambda _: {"seq": place, "manifest": manifest})

    async def submitted(self, key: str, seq: int, source: Source) -> tuple[int, Any]:
        """Return which message submitted a job as it is at *seq*, and its manifest; 0 and None for none."""

        def offered(world: World) -> int:
            submitted = world.jobs.get(JobKey(key))
            return 0 if submitted is None else submitted.shown.seq

        place = await self.cell.ask(seq, offered)
        return place, await self.cell.read(lambda: self._submitted(key, place, source)) if place else None

    def _submitted(self, key: str, seq: int, source: Source) -> Any:
        suffix = job_suffix(*key.split("/", 1))
        for entries in source.read(seq, seq):
            for entry in entries:
                if entry.suffix == suffix:
                    try:
                        return msgspec.json.decode(entry.payload).get("data")
                    except UNREADABLE:
                        return None
        return None

    async def why(self, asked: Asked) -> answers.ReportAnswer:
        key, source = asked.key(), self.cell.source
        return await self.heavy(
            asked, answers.ReportAnswer, ("why", key), lambda seq: heavy.why(source, seq, key)
        )

    async def simulate(self, asked: Asked) -> answers.ReportAnswer:
        request = asked.body(answers.SimulateRequest)
        manifest = request.manifest
        if manifest is None:
            documents = [one for one in _yaml(request.text) if one]
            if len(documents) != 1 or not isinstance(documents[0], dict):
                raise ProblemError("want one job's manifest")
            manifest = documents[0]
        source, said = self.cell.source, manifest
        key = ("simulate", msgspec.json.encode(manifest, order="sorted"))
        return await self.heavy(
            asked.at(request.at),
            answers.ReportAnswer,
            key,
            lambda seq: heavy.simulate(source, seq, said),
        )

    async def what_if(self, asked: Asked) -> answers.ReportAnswer:
        request, source = asked.body(answers.WhatIfRequest), self.cell.source
        key = ("what-if", msgspec.json.encode(request))
        return await self.heavy(
            asked, answers.ReportAnswer, key, lambda _: heavy.what_would_have_been(source, request)
        )

    # The log

    async def log(self, asked: Asked) -> answers.LogAnswer:
        source = self.shown
        upto, time, live = await self._head(asked)
        newest = asked.choice("order", ("", "desc", "asc")) != "asc"
        first, last = asked.number("from", source.first), min(asked.number("to", upto), upto)
        items, more = await self.cell.read(
            lambda: log_view.page(
                source,
                max(first, source.first),
                last,
                writers=asked.words("writer"),
                types=asked.words("type"),
                about=asked.text("about"),
                newest_first=newest,
                limit=asked.limit(),
            )
        )
        return answers.LogAnswer(
            upto=upto, time=time, live=live, lag=0, items=items, first=source.first, end=upto, next=more
        )

    async def commit(self, asked: Asked) -> answers.CommitAnswer:
        upto, time, live = await self._head(asked)
        seq, source = asked.seq(), self.shown
        found = await self.cell.read(lambda: log_view.commit(source, seq, asked.text("about")))
        return answers.CommitAnswer(upto=upto, time=time, live=live, lag=0, **found)

    async def density(self, asked: Asked) -> answers.DensityAnswer:
        upto, time, live = await self._head(asked)
        source, density = self.cell.source, self.cell.density
        first, last = asked.number("from", source.first), min(asked.number("to", upto), upto)

        def found() -> list[answers.Bucket]:
            density.update()
            return density.buckets(max(first, source.first), last, asked.number("buckets", 500))

        buckets = await self.cell.read(found)
        return answers.DensityAnswer(
            upto=upto, time=time, live=live, lag=0, first=source.first, end=upto, buckets=buckets
        )

    async def preemptions(self, asked: Asked) -> answers.PreemptionsAnswer:
        upto, time, live = await self._head(asked)
        source, queue = self.cell.source, asked.text("queue")
        found = await self.cell.read(lambda: lanes.preemptions(source, upto, queue))
        told = await answer_to(
            self.questions, (upto, "loops"), heavy.apart(lambda: heavy.loops(source, upto))
        )
        start, limit = asked.start(), asked.limit()
        return answers.PreemptionsAnswer(
            upto=upto,
            time=time,
            live=live,
            lag=0,
            items=found[start : start + limit],
            loops=[answers.LoopNote(kind=k, seq=s, time=rfc3339(at), text=text) for k, s, at, text in told],
            total=len(found),
            continue_=str(start + limit) if start + limit < len(found) else "",
        )

    async def diff(self, asked: Asked) -> answers.DiffAnswer:
        source = self.cell.source
        ends = [await sequence(self.cell, asked.text(name)) for name in ("from", "to")]
        before, after = (seq or source.end for seq in ends)
        return await self.heavy(
            asked.at(str(after)),
            answers.DiffAnswer,
            ("diff", before),
            lambda _: {"diff": heavy.difference(source, before, after)},
            before=before,
            after=after,
        )

    async def state(self, asked: Asked) -> answers.StateAnswer:
        source, sections, name = self.cell.source, asked.many("section"), asked.text("name")
        if unknown := [one for one in sections if one not in SECTIONS]:
            raise ProblemError(f"section={unknown[0]}: want one of {', '.join(SECTIONS)}")
        return await self.heavy(
            asked,
            answers.StateAnswer,
            ("state", sections, name),
            lambda seq: {"state": heavy.state(source, seq, sections, name)},
        )

    # Objects

    async def checks(self, asked: Asked) -> answers.ChecksAnswer:
        return await self.seen(asked, answers.ChecksAnswer, lambda world: {"checks": pages.check_rows(world)})

    async def objects(self, asked: Asked) -> answers.ObjectsAnswer:
        limit = asked.limit()
        return await self.seen(
            asked,
            answers.ObjectsAnswer,
            lambda world: pages.objects_page(
                world,
                asked.part("kind"),
                namespace=asked.text("namespace"),
                labels=asked.text("labelSelector"),
                fields=asked.text("fieldSelector"),
                start=asked.text("continue"),
                limit=limit,
            ),
        )

    async def object(self, asked: Asked) -> answers.ObjectAnswer:
        kind, name, namespace = asked.part("kind"), asked.part("name"), asked.text("namespace")
        key = f"{namespace or 'default'}/{name}" if kind in NAMESPACED_KINDS else name
        return await self.seen(
            asked, answers.ObjectAnswer, lambda world: {"object": pages.one_object(world, kind, key)}
        )

    async def system(self, asked: Asked) -> answers.SystemAnswer:
        replicas, size = await self.cell.replicas(), await self.cell.log_bytes()
        source = self.cell.source

        def found(world: World) -> Plain:
            return {
                "replicas": [
                    answers.Replica(
                        service=str(one.get("service", "")),
                        instance=str(one.get("instance", "")),
                        role=str(one.get("role", "")),
                        upto=int(one.get("upto") or 0),
                        lag=int(one.get("lag") or 0),
                        pid=int(one.get("pid") or 0),
                    )
                    for one in replicas
                ],
                "writers": {
                    writer: answers.WriterAt(seq=seq, time=rfc3339(at))
                    for writer, (seq, at) in sorted(world.heads.items())
                },
                "agents": pages.agents(world),
                "rejected": world.jobs.rejected,
                "log": answers.LogSize(first=source.first, end=source.end, bytes=size),
                "console": answers.ConsoleState(
                    upto=world.seq,
                    lag=self.cell.lag,
                    clients=self.clients,
                    questions=answers.Questions(
                        running=self.questions.running, waiting=self.questions.waiting
                    ),
                    memory_bytes=psutil.Process().memory_info().rss,
                ),
            }

        return await self.seen(asked, answers.SystemAnswer, found)

    # Sessions

    async def login(self, asked: Asked) -> web.StreamResponse:
        session = self.access.login(asked.body(answers.LoginRequest).token)
        response = web.Response(status=204)
        cookie(response, session, secure=asked.request.secure)
        return response

    async def logout(self, asked: Asked) -> web.StreamResponse:
        self.access.logout(asked.request)
        return web.Response(status=204)


def _yaml(text: str) -> list[Any]:
    try:
        return list(plain_documents(text))
    except YamlTextError as error:
        raise ProblemError(f"line {error.line}: {error.detail}") from error
