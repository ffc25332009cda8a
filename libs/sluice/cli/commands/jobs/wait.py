"""`sluice wait`, and waiting for submitted jobs with a view of where they are."""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence

import click

from sluice.cli.cell.client import Api, run
from sluice.cli.cell.lookup import existing
from sluice.cli.cell.name_completion import complete_targets
from sluice.cli.cell.selectors import namespace_option
from sluice.cli.kit.columns import dig, job_reason, job_status, key
from sluice.cli.kit.durations import parse, precise
from sluice.cli.kit.errors import EXIT_TIMEOUT, CliError, plural
from sluice.cli.kit.resources import BY_KIND
from sluice.cli.kit.terminal import echo, echo_over
from sluice.protocol.query import ListRequest, Object, WatchRequest

AT_ONCE = 50
OVER = ("Succeeded", "Failed", "Rejected", "Deleted")
_CONDITIONS: dict[str, Callable[[Object], bool]] = {
    "finished": lambda job: job_status(job) in ("Succeeded", "Failed"),
    "succeeded": lambda job: job_status(job) == "Succeeded",
    "running": lambda job: job_status(job) in ("Running", "Succeeded"),
    "admitted": lambda job: job_status(job) in ("Admitted", "Running", "Succeeded"),
    "queued": lambda job: job_status(job) == "Queued",
}


@click.command()
@click.argument(
    "arguments",
    nargs=-1,
    required=True,
    metavar="job NAME... | job/NAME...",
    shell_complete=complete_targets,
)
@namespace_option()
@click.option(
    "--for", "condition", type=click.Choice(sorted(_CONDITIONS)), default="finished", show_default=True,
    help="What to wait for.",
)  # fmt: skip
@click.option("--timeout", default="", metavar="TIME", help="At most so long, e.g. 5m (default: for ever).")
@click.pass_context
def wait(
    ctx: click.Context, arguments: tuple[str, ...], namespace: str, condition: str, timeout: str
) -> None:
    """Wait until jobs have come to a state.

    Exits 0 when all have, 1 when one ended otherwise, 3 when the time was up.

    \b
    Examples:
      sluice wait job train
      sluice wait job/train job/eval --for running --timeout 2m
    """
    names = _names(arguments)

    async def work(api: Api) -> int:
        for name in names:
            await existing(api, BY_KIND["Job"], name, namespace)
        return await follow_jobs(
            api, [f"{namespace}/{name}" for name in names], limit=timeout, condition=condition
        )

    if failed := run(ctx, work):
        raise CliError(f"{plural(failed, 'job')} did not come to be {condition}")


def _names(arguments: Sequence[str]) -> list[str]:
    if all("/" in argument for argument in arguments):
        pairs = [argument.split("/", 1) for argument in arguments]
        words, names = {word for word, _ in pairs}, [name for _, name in pairs]
    else:
        words, names = {arguments[0]}, list(arguments[1:])
    if not words <= {"job", "jobs"} or not names:
        raise CliError("wait takes jobs", hint="sluice wait job NAME...", exit_code=2)
    return names


async def follow_jobs(
    api: Api,
    keys: Sequence[str],
    *,
    limit: str = "",
    condition: str = "finished",
    min_seq: int = 0,
    quiet: bool = False,
) -> int:
    """Wait for jobs, showing where they are (unless *quiet*); return how many did not meet the condition.

    *min_seq*: they are looked at as of this sequence or later, so of those just submitted, not of older
    ones of the same names.

    Raises:
        CliError: the time was up.
    """
    try:
        limit_s = parse(limit) if limit else None
    except ValueError as error:
        raise CliError(str(error), exit_code=2) from None
    follower = _Follower(keys, condition, min_seq=min_seq, quiet=quiet)
    try:
        async with asyncio.timeout(limit_s):
            await follower.run(api)
    except TimeoutError:
        raise CliError(
            f"after {limit} {plural(len(follower.open), 'job')} not {condition}: "
            + ", ".join(f"{name} ({follower.said.get(name, 'unknown')})" for name in list(follower.open)[:5]),
            exit_code=EXIT_TIMEOUT,
        ) from None
    finally:
        follower.clear()
    return follower.failed


class _Follower:
    """Follows some jobs of possibly several namespaces, and says what changes."""

    def __init__(self, keys: Sequence[str], condition: str, *, min_seq: int, quiet: bool) -> None:
        self.open = dict.fromkeys(keys)
        self.condition = condition
        self.min_seq, self.quiet = min_seq, quiet
        self.said: dict[str, str] = {}
        self.failed = 0
        self.started = time.monotonic()
        self.terminal = sys.stderr.isatty() and not quiet
        self.many = len(keys) > 8

    async def run(self, api: Api) -> None:
        for namespace in dict.fromkeys(name.split("/", 1)[0] for name in self.open):
            await self._namespace(api, namespace)

    def _of(self, namespace: str) -> list[str]:
        return [name.split("/", 1)[1] for name in self.open if name.startswith(f"{namespace}/")]

    async def _namespace(self, api: Api, namespace: str) -> None:
        since = await self._now(api, namespace)
        while names := self._of(namespace):
            answer = await api.watch(
                WatchRequest(
                    kind="Job",
                    namespace=namespace,
                    name=names[0] if len(names) == 1 else "",
                    since=since,
                    timeout_ms=2000,
                )
            )
            since = await self._now(api, namespace) if answer.reset else answer.seq
            for job in answer.items:
                self._see(job)
            for gone in answer.deleted:
                self._end(f"{gone.namespace}/{gone.name}", "Deleted", ok=False)
            self._line()

    async def _now(self, api: Api, namespace: str) -> int:
        """Look at each job once; return the sequence to watch from.

        Job by job, since of a namespace they may be the smallest part.
        """
        names = self._of(namespace)
        since = None
        for begin in range(0, len(names), AT_ONCE):
            requests = [
                ListRequest(kind="Job", namespace=namespace, name=name, min_seq=self.min_seq)
                for name in names[begin : begin + AT_ONCE]
            ]
            for answer in await asyncio.gather(*(api.list(request) for request in requests)):
                since = answer.seq if since is None else min(since, answer.seq)
                for job in answer.items:
                    self._see(job)
        return since or 0

    def _see(self, job: Object) -> None:
        name = key(job)
        if name not in self.open:
            return
        text = _where(job)
        if self.said.get(name) != text:
            self.said[name] = text
            if not self.many:
                self._say(f"{name}: {text}")
        if _CONDITIONS[self.condition](job):
            ok = job_status(job) != "Failed" or self.condition not in ("finished", "succeeded")
            self._end(name, text, ok=ok)
        elif job_status(job) in OVER:
            self._end(name, text, ok=False)

    def _end(self, name: str, text: str, *, ok: bool) -> None:
        if name in self.open:
            del self.open[name]
            self.failed += not ok
            if self.many:
                self._say(f"{name}: {text}")

    def _say(self, text: str) -> None:
        if not self.quiet:
            self.clear()
            echo(text, err=True)

    def _line(self) -> None:
        if self.terminal and self.open:
            waited = precise(time.monotonic() - self.started)
            text = f"waiting for {plural(len(self.open), 'job')} ({waited})"
            echo_over(text)

    def clear(self) -> None:
        """Take the progress line away."""
        if self.terminal:
            echo_over()


def _where(job: Object) -> str:
    """Return in a few words where a job is."""
    phase, reason = job_status(job), job_reason(job)
    if reason == "Suspended":  # which of its queues is inactive, the message says
        reason = f"{reason}: {dig(job, 'status', 'message', default='')}"
    place = dig(job, "status", "queuePosition", default=None)
    flavors = ",".join(dig(job, "status", "flavors", default=()))
    more = [f"position {place}" if place else "", f"on {flavors}" if flavors else "", reason]
    detail = ", ".join(part for part in more if part and part != phase)
    return f"{phase} ({detail})" if detail else phase
