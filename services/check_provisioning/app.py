"""The provisioning check as a controller."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import msgspec
import structlog

from sluice.api.kueue import ProvisioningRequestConfigSpec
from sluice.api.meta import Condition
from sluice.sdk.checks import Controller, Pending, Ready, Rejected, Request, Settings, Verdict
from sluice.services.common.http import Answer, Http, HttpError

from . import protocol
from .config import Config, providers
from .protocol import ProvisioningStatus

ProvisioningCheck = Request[ProvisioningRequestConfigSpec]

FAILURES = "failures"
BACKOFF_MOST_S = 300.0

log = structlog.get_logger("sluice.check.provisioning")


class ProviderError(Exception):
    """The provider cannot be asked, or does not answer as the protocol says."""


class Provider:
    """A capacity provider behind one URL."""

    def __init__(self, http: Http, url: str, config: Config) -> None:
        self._http, self._url, self._config = http, url, config

    async def want(self, asked: protocol.ProvisioningRequest) -> ProvisioningStatus:
        """Return the status of a request, made if it does not exist.

        Raises:
            ProviderError: nobody knows.
        """
        found = await self.look(asked.namespace, asked.name)
        if found is not None and found.workload_uid not in ("", asked.workload_uid):
            # Of a namesake that has gone: the name is wanted for another workload.
            await self.release(asked.namespace, asked.name)
            found = None
        if found is not None:
            return found
        answer = await self._ask("POST", protocol.PATH, msgspec.json.encode(asked))
        if answer.status == 409:
            found = await self.look(asked.namespace, asked.name)
            if found is None:
                raise ProviderError("status 409, but the request does not exist")
            return found
        return _status(_expected(answer, 200, 201, 202))

    async def look(self, namespace: str, name: str) -> ProvisioningStatus | None:
        """Return the status of a request, None if there is none; raises as `want`."""
        answer = await self._ask("GET", _path(namespace, name))
        return None if answer.status == 404 else _status(_expected(answer, 200))

    async def release(self, namespace: str, name: str) -> None:
        """Delete a request, if there is one; raises as `want`."""
        _expected(await self._ask("DELETE", _path(namespace, name)), 200, 202, 204, 404)

    async def owned(self, owner: str) -> Sequence[ProvisioningStatus]:
        """Return all requests of an owner; raises as `want`."""
        answer = _expected(await self._ask("GET", f"{protocol.PATH}?owner={quote(owner, safe='')}"), 200)
        try:
            return protocol.decode_list(answer.body).items
        except ValueError as error:
            raise ProviderError(str(error)) from error

    async def _ask(self, method: str, path: str, body: bytes | None = None) -> Answer:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self._config.token_file:
            headers["Authorization"] = f"Bearer {_token(self._config.token_file)}"
        try:
            return await self._http.ask(
                method,
                self._url + path,
                timeout_s=self._config.timeout_s,
                body=body,
                headers=headers,
                most_bytes=8 << 20,
            )
        except HttpError as error:
            raise ProviderError(str(error)) from error


def _path(namespace: str, name: str) -> str:
    return f"{protocol.PATH}/{quote(namespace, safe='')}/{quote(name, safe='')}"


def _expected(answer: Answer, *wanted: int) -> Answer:
    if answer.status not in wanted:
        said = f": {answer.excerpt}" if answer.excerpt else ""
        raise ProviderError(f"status {answer.status}{said}")
    return answer


def _status(answer: Answer) -> ProvisioningStatus:
    try:
        return protocol.decode_status(answer.body)
    except ValueError as error:
        raise ProviderError(str(error)) from error


def _token(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise ProviderError(f"the token cannot be read: {error.strerror}") from error


class Broker:
    """Makes verdicts of what providers say."""

    def __init__(self, http: Http, config: Config) -> None:
        self._config = config
        self._providers = {name: Provider(http, url, config) for name, url in providers(config).items()}
        self.owner = ""
        """Names this controller of this cell to providers that serve several."""

    def _provider(self, spec: ProvisioningRequestConfigSpec) -> Provider | None:
        return self._providers.get(spec.provisioning_class_name, self._providers.get(""))

    async def check(self, request: ProvisioningCheck) -> Verdict:
        """Ask for what the workload needs, and say how it stands."""
        spec = request.parameters
        if not spec.provisioning_class_name:
            return Pending("The check's parameters must name a ProvisioningRequestConfig with a class", 3600)
        if not protocol.managed(spec, request.pod_sets):
            return Ready(message="Nothing to provision: no managed resource is requested")
        provider = self._provider(spec)
        if provider is None:
            return Pending(f"No provider is configured for class {spec.provisioning_class_name!r}", 3600)
        try:
            status = await provider.want(protocol.ask_for(request.raw, spec, self.owner))
        except ProviderError as error:
            failures = request.memory[FAILURES] = request.memory.get(FAILURES, 0) + 1
            wait_s = min(BACKOFF_MOST_S, self._config.poll_s * 2.0 ** min(failures - 1, 30))
            return Pending(f"Capacity provider: {error}; trying again", wait_s)
        request.memory[FAILURES] = 0
        return protocol.judge(status, request.raw, spec, self._config.poll_s)

    async def watch(self, request: ProvisioningCheck) -> Verdict | None:
        """Look after capacity that was provisioned; return what takes the approval back.

        Once the workload runs, what becomes of the request does not matter, unless it is configured to.
        """
        spec = request.parameters
        provider = self._provider(spec)
        if provider is None or not protocol.managed(spec, request.pod_sets):
            return None
        while True:
            await asyncio.sleep(self._config.poll_s)
            ignore = request.admitted and self._config.on_revoked == "Ignore"
            if ignore:
                return None
            name = protocol.request_name(request.raw)
            try:
                status = await provider.look(request.namespace, name)
            except ProviderError as error:
                request.log.warning("provider not asked", error=str(error))
                continue
            if status is None:
                status = _vanished(request.namespace, name)
            if not any(status.condition(kind) for kind in ("Failed", "CapacityRevoked", "BookingExpired")):
                continue
            verdict = protocol.judge(status, request.raw, spec, self._config.poll_s)
            if request.admitted and self._config.on_revoked == "Reject" and not isinstance(verdict, Rejected):
                return Rejected(verdict.message)
            return verdict

    async def release(self, request: ProvisioningCheck) -> None:
        """Give back what was asked for; raises when that should be tried again."""
        provider = self._provider(request.parameters)
        if provider is not None and protocol.managed(request.parameters, request.pod_sets):
            await provider.release(request.namespace, protocol.request_name(request.raw))

    async def tidy(self, requests: Sequence[ProvisioningCheck]) -> None:
        """Delete what was asked for workloads that went while no controller ran."""
        known = {(request.namespace, protocol.request_name(request.raw)) for request in requests}
        for provider in self._providers.values():
            try:
                for status in await provider.owned(self.owner):
                    if (status.namespace, status.name) not in known:
                        log.info("deleting an orphan", namespace=status.namespace, request=status.name)
                        await provider.release(status.namespace, status.name)
            except ProviderError as error:
                log.warning("orphans not looked for", error=str(error))


def _vanished(namespace: str, name: str) -> ProvisioningStatus:
    gone = msgspec.convert(
        {"type": "CapacityRevoked", "status": "True", "message": "the provider does not know the request"},
        Condition,
    )
    return ProvisioningStatus(name=name, namespace=namespace, conditions=[gone])


def make(config: Config) -> Controller:
    """Return the controller, to be run.

    Raises:
        ValueError: the providers' URLs cannot be read.
    """
    settings = Settings(concurrency=config.concurrency, timeout_s=None)
    app = Controller(config.controller, settings)
    http = Http(concurrency=config.concurrency)
    broker = Broker(http, config)

    provisioning = app.check(parameters=ProvisioningRequestConfigSpec)(broker.check)
    provisioning.watch(every=3600)(broker.watch)
    provisioning.on_stop(broker.release)
    app.on_active(broker.tidy)

    @app.lifespan
    @asynccontextmanager
    async def connections(controller: Controller) -> AsyncIterator[None]:
        broker.owner = f"{controller.running.client.log.cell.name}/{config.controller}"
        async with http:
            yield

    return app
