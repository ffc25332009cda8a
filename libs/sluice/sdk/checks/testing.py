"""Test a check without a server: make requests, turn the clock, look at the verdicts.

    async def test_over_budget():
        async with CheckTester(app) as tester:
            verdict = await tester.ask(make_request(namespace="ml", requests={"cpu": 64000}))
        assert verdict.state == "Retry"

The functions run on the engine that runs them in production. The tester stands for the cell: an answer is
acted on as the admission-check service would, unless *obedient* is false.
"""

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec

from sluice.api.decode import decode_json
from sluice.api.kueue import AdmissionCheckParametersReference
from sluice.core.slices.job_request import JobRequest, job_request
from sluice.events.base import PodSet, PodSetAssignment
from sluice.protocol.checks import CheckedWorkload, CheckRequest, CheckVerdict, request_key
from sluice.sdk._manifests import Source, load

from ._check import Check, call
from ._clock import FakeClock
from ._engine import Engine
from ._metrics import Numbers
from ._registry import Registry
from ._request import Request, decode_parameters
from ._verdict_messages import Said, Stored, encode
from ._verdicts import Verdict, checked

_uids = itertools.count(1)


def make_request(
    *,
    namespace: str = "default",
    name: str = "job",
    job: Source | None = None,
    requests: Mapping[str, int] | None = None,
    count: int = 1,
    flavors: Mapping[str, str] | str = "default",
    pod_sets: Sequence[PodSet] = (),
    local_queue: str = "",
    cluster_queue: str = "queue",
    priority: int = 0,
    labels: Mapping[str, str] | None = None,
    pod_labels: Mapping[str, str] | None = None,
    pod_annotations: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    check: str = "check",
    controller: str = "example.com/controller",
    attempt: int = 1,
    retry_count: int = 0,
    parameters: Mapping[str, Any] | None = None,
    parameters_kind: str = "",
    preemptions_pending: bool = False,
    state: str = "Pending",
    admitted: bool = False,
    max_execution_time_s: int | None = None,
    uid: str = "",
) -> CheckRequest:
    """Return a request as the cell would publish it.

    *job*: a manifest (a mapping, a struct or a file) that pod sets, names, queue and labels are taken from.
    *requests*: per pod (cpu in milli-units, all else in whole units), of *count* pods in one set `main`.
    *labels*, *annotations*: of the workload; *pod_labels*, *pod_annotations*: of the pods in that set.
    *flavors*: one for all resources, or by resource. *parameters*: the `spec` of the parameters object.

    >>> request = make_request(namespace="ml", requests={"cpu": 4000}, count=8, flavors="spot")
    >>> request.assignment[0].usage
    {'cpu': 32000}
    """
    workload = CheckedWorkload(
        namespace=namespace,
        name=name,
        uid=uid or f"uid-{next(_uids)}",
        job=name,
        job_kind="Job",
        local_queue=local_queue,
        cluster_queue=cluster_queue,
        priority=priority,
        labels=dict(labels or {}),
        annotations=dict(annotations or {}),
        max_execution_time_s=max_execution_time_s,
    )
    if job is not None:
        workload, pod_sets = _of_job(workload, job_request(decode_json(load(job)[0].data)))
    if not pod_sets:
        marks: dict[str, Any] = {"labels": dict(pod_labels or {}), "annotations": dict(pod_annotations or {})}
        pod_sets = (PodSet(name="main", count=count, requests=dict(requests or {"cpu": 1000}), **marks),)
    stands = {"state": state, "admitted": admitted, "preemptions_pending": preemptions_pending}
    about = {"check": check, "controller": controller, "attempt": attempt, "retry_count": retry_count}
    return _request(workload, pod_sets, flavors, parameters, parameters_kind, {**stands, **about})


def _of_job(given: CheckedWorkload, asked: JobRequest) -> tuple[CheckedWorkload, Sequence[PodSet]]:
    """Return the workload of a job, and its pod sets; what was given beside the manifest goes first."""
    workload = msgspec.structs.replace(
        given,
        namespace=asked.namespace,
        name=asked.name,
        job=asked.name,
        local_queue=given.local_queue or asked.queue_name,
        priority=given.priority or asked.priority or 0,
        labels={**asked.labels, **given.labels},
        annotations={**asked.annotations, **given.annotations},
        max_execution_time_s=given.max_execution_time_s or asked.maximum_execution_time_s,
    )
    return workload, asked.pod_sets


def _request(
    workload: CheckedWorkload,
    pod_sets: Sequence[PodSet],
    flavors: Mapping[str, str] | str,
    parameters: Mapping[str, Any] | None,
    parameters_kind: str,
    fields: dict[str, Any],
) -> CheckRequest:
    reference = None
    if parameters is not None or parameters_kind:
        reference = AdmissionCheckParametersReference(
            api_group="example.com", kind=parameters_kind or "Parameters", name="parameters"
        )
    msgspec.convert(fields["state"], type=CheckRequest.__annotations__["state"])
    return CheckRequest(
        workload=msgspec.structs.replace(workload, local_queue=workload.local_queue or "queue"),
        parameters=reference,
        parameters_spec=None if parameters is None else dict(parameters),
        pod_sets=tuple(pod_sets),
        assignment=tuple(_assigned(one, flavors) for one in pod_sets),
        reserved_at=FakeClock().wall(),
        seq=1,
        **fields,
    )


def _assigned(pod_set: PodSet, flavors: Mapping[str, str] | str) -> PodSetAssignment:
    return PodSetAssignment(
        name=pod_set.name,
        count=pod_set.count,
        flavors={
            resource: flavors if isinstance(flavors, str) else flavors.get(resource, "default")
            for resource in pod_set.requests
        },
        usage={resource: amount * pod_set.count for resource, amount in pod_set.requests.items()},
    )


async def call_check(check: Check, request: CheckRequest) -> Verdict:
    """Call a check's function once, and return what it returned; exceptions come through.

    >>> from sluice.sdk.checks import Controller, Rejected
    >>> app = Controller("example.com/never")
    >>> @app.check
    ... async def never(request):
    ...     return Rejected(message=f"{request.key} asks in vain")
    >>> asyncio.run(call_check(never, make_request(name="train"))).message
    'default/train asks in vain'
    """
    given: Request[Any] = Request(request, decode_parameters(request.parameters_spec, check.parameters))
    return checked(await call(check.function, given))


class CheckTester:
    """Runs a controller's checks on a clock of its own. Use as an asynchronous context manager.

    >>> from sluice.sdk.checks import Controller, Pending, Ready
    >>> app = Controller("example.com/patience")
    >>> @app.check
    ... async def patience(request):
    ...     seen = request.memory["seen"] = request.memory.get("seen", 0) + 1
    ...     return Ready() if seen > 1 else Pending(message="not yet", recheck_after=60)
    >>> async def test():
    ...     request = make_request(controller="example.com/patience", check="patience")
    ...     async with CheckTester(app) as tester:
    ...         first = await tester.ask(request)
    ...         await tester.advance(60)
    ...         return first.state, tester.last(request).state
    >>> asyncio.run(test())
    ('Pending', 'Ready')
    """

    def __init__(self, app: Registry, *, obedient: bool = True) -> None:
        self.app, self.obedient = app, obedient
        self.clock = FakeClock()
        self.numbers = Numbers(app.name)
        self.engine = Engine(app, self.clock, self._send, self._unheard, self.numbers)
        self.verdicts: list[CheckVerdict] = []
        """All that were published, in order."""
        self.requests: dict[str, CheckRequest] = {}
        """What stands in the bucket."""
        self._lifespans: list[Any] = []
        self._ids: dict[str, CheckVerdict] = {}

    async def __aenter__(self) -> Self:
        self.app.running = self.engine
        for lifespan in self.app.lifespans:
            context = lifespan(self.app)
            await context.__aenter__()
            self._lifespans.append(context)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.engine.stop()
        self.app.running = None
        for context in reversed(self._lifespans):
            await context.__aexit__(None, None, None)

    async def ask(self, request: CheckRequest) -> CheckVerdict:
        """Put a request there (or change it), wait for the function, and return the verdict published.

        Raises:
            AssertionError: none was.
        """
        before = len(self.verdicts)
        await self.put(request)
        found = [verdict for verdict in self.verdicts[before:] if _about(verdict, request)]
        assert found, f"no verdict on {request.workload.namespace}/{request.workload.name}"
        return found[-1]

    async def put(self, request: CheckRequest) -> None:
        """Put a request there, or change it; returns when no check function is at work."""
        key = _key(request)
        self.requests[key] = request
        self.engine.update(key, request)
        await self.settle()

    def begin(self, request: CheckRequest) -> None:
        """Put a request there without waiting: its function has not begun."""
        self.requests[_key(request)] = request
        self.engine.update(_key(request), request)

    async def admit(self, request: CheckRequest) -> None:
        """Say that all checks of the workload were Ready and that it runs."""
        known = self.requests[_key(request)]
        await self.put(msgspec.structs.replace(known, state="Ready", admitted=True))

    async def withdraw(self, request: CheckRequest) -> None:
        """Delete the request, as an eviction does; returns when what ran has been cancelled and released."""
        self.requests.pop(_key(request), None)
        self.engine.update(_key(request), None)
        await self.settle()

    async def retry(self, request: CheckRequest) -> CheckVerdict:
        """Ask again as after an eviction: another attempt, one more retry."""
        return await self.ask(
            msgspec.structs.replace(
                request,
                attempt=request.attempt + 1,
                retry_count=request.retry_count + 1,
                state="Pending",
                admitted=False,
            )
        )

    async def advance(self, seconds: float) -> None:
        """Let time go by: rechecks, backoff, timeouts."""
        until = self.clock.now() + seconds
        while self.clock.next_call(until):
            await self.settle()
        await self.settle()

    def last(self, request: CheckRequest) -> CheckVerdict | None:
        """Return the newest verdict on a request's workload and check."""
        return next((one for one in reversed(self.verdicts) if _about(one, request)), None)

    async def settle(self) -> None:
        """Wait until no check function is at work; watches get a few turns of the event loop.

        A function that waits for something that only the clock brings about does not hold this up for ever.
        """
        for _ in range(20):
            await asyncio.sleep(0)
        while tasks := self.engine.at_work(watching=False):
            done, _ = await asyncio.wait(tasks, timeout=0.1)
            if not done:
                return
            await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)

    # the cell

    async def _send(self, ident: str, verdict: CheckVerdict, after_s: float | None) -> Stored:
        encode("test", ident, self.clock.wall(), verdict, after_s)
        if ident in self._ids:
            return Stored(len(self._ids), self._ids[ident])
        self._ids[ident] = verdict
        self.verdicts.append(verdict)
        if self.obedient:
            self._obey(verdict)
        return Stored(len(self._ids), verdict)

    def _obey(self, verdict: CheckVerdict) -> None:
        for key, request in list(self.requests.items()):
            if not _about(verdict, request) or verdict.attempt != request.attempt:
                continue
            loop = asyncio.get_running_loop()
            if verdict.state == "Ready" and request.state == "Pending":
                self.requests[key] = msgspec.structs.replace(request, state="Ready")
                loop.call_soon(self.engine.update, key, self.requests[key])
            elif verdict.state in ("Retry", "Rejected"):
                del self.requests[key]
                loop.call_soon(self.engine.update, key, None)

    async def _unheard(self, key: str, said: Said) -> bool:  # noqa: ARG002
        return False


def _key(request: CheckRequest) -> str:
    workload = request.workload
    return request_key(request.controller, workload.namespace, workload.name, request.check)


def _about(verdict: CheckVerdict, request: CheckRequest) -> bool:
    workload = request.workload
    return verdict.workload == f"{workload.namespace}/{workload.name}" and verdict.check == request.check
