"""The webhook check as a controller: for people who want no NATS."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from sluice.api.check_parameters import WebhookCheckConfigSpec
from sluice.core.timing import backoff_s
from sluice.sdk.checks import Controller, Pending, Ready, Rejected, Request, Settings, Verdict
from sluice.services.common.http import Answer, Http, HttpError

from .config import Config
from .exchange import (
    Action,
    FailureError,
    Later,
    Reply,
    body,
    headers,
    parse_answer,
    shown,
    to_verdict,
)

WebhookRequest = Request[WebhookCheckConfigSpec]

IDLE_S = 3600.0
FAILURES, PLACE = "failures", "place"
"""What is remembered from call to call: failures in a row, and where the answer will be."""


class SecretError(Exception):
    """The secret to sign with is not there."""


class Caller:
    """Asks webhooks, and makes verdicts of what they say."""

    def __init__(self, http: Http, secrets_dir: str) -> None:
        self._http, self._secrets = http, secrets_dir

    async def check(self, request: WebhookRequest) -> Verdict:
        """Ask whether the workload may run."""
        spec, memory = request.parameters, request.memory
        if not spec.url:
            return Pending("The check's parameters must name a WebhookCheckConfig with a url", IDLE_S)
        try:
            found = await self._ask(request, "Check", memory.get(PLACE, ""))
        except SecretError as error:
            # The administrator's to put right, so no failure of the webhook's.
            return Pending(str(error), spec.retry_strategy.backoff_max_seconds or IDLE_S)
        except FailureError as error:
            memory.pop(PLACE, None)
            return self._failed(request, error)
        memory[FAILURES] = 0
        if isinstance(found, Later):
            memory[PLACE] = found.url
            text = found.message or f"Webhook {shown(spec.url)} answers later"
            return Pending(text, spec.poll_seconds if found.after_s is None else max(1.0, found.after_s))
        return to_verdict(found, spec.poll_seconds)

    def _failed(self, request: WebhookRequest, error: FailureError) -> Verdict:
        spec, memory = request.parameters, request.memory
        strategy = spec.retry_strategy
        failures = memory[FAILURES] = memory.get(FAILURES, 0) + 1
        text = f"Webhook {shown(spec.url)}: {error}"
        if failures <= strategy.backoff_limit_count:
            delay_s = backoff_s(failures, strategy.backoff_base_seconds, strategy.backoff_max_seconds)
            return Pending(f"{text}; trying again", max(float(delay_s), error.after_s, 0.05))
        match spec.failure_policy:
            case "Allow":
                return Ready(message=f"{text}; let in by failurePolicy Allow")
            case "Reject":
                return Rejected(f"{text}; rejected by failurePolicy Reject")
            case "Hold":
                delay_s = max(1, strategy.backoff_max_seconds)
                return Pending(f"{text}; held by failurePolicy Hold", max(float(delay_s), error.after_s))

    async def watch(self, request: WebhookRequest) -> Verdict | None:
        """Ask now and then whether the approval still holds; return what takes it back."""
        while True:
            spec = _spec(request)
            await asyncio.sleep(IDLE_S if spec.recheck_seconds is None else spec.recheck_seconds)
            if spec.recheck_seconds is None or not spec.url:
                continue
            try:
                found = await self._ask(request, "Recheck")
            except (SecretError, FailureError) as error:
                # An approval stays while nobody says otherwise.
                request.log.warning("recheck failed", error=str(error))
                continue
            if isinstance(found, Reply) and found.state in ("Retry", "Rejected"):
                return to_verdict(found, spec.poll_seconds)

    async def cancel(self, request: WebhookRequest) -> None:
        """Tell that the workload has gone; raises when that should be tried again."""
        spec = request.parameters
        if spec.cancel_url:
            content = body(request.raw, "Cancel")
            answer = await self._send(request, "POST", spec.cancel_url, "Cancel", content)
            if answer.status >= 500 or answer.status == 429:
                raise FailureError(f"status {answer.status}")
            if answer.status >= 300:
                request.log.warning("cancel not taken", status=answer.status, said=answer.excerpt)

    async def _ask(self, request: WebhookRequest, action: Action, place: str = "") -> Reply | Later:
        url = place or request.parameters.url
        method, content = ("GET", b"") if place else ("POST", body(request.raw, action))
        try:
            return parse_answer(await self._send(request, method, url, action, content), url)
        except HttpError as error:
            raise FailureError(str(error)) from error

    async def _send(
        self, request: WebhookRequest, method: str, url: str, action: Action, content: bytes
    ) -> Answer:
        spec = request.parameters
        secret = self._secret(spec.signing_secret)
        return await self._http.ask(
            method,
            url,
            timeout_s=spec.timeout_seconds,
            body=content or None,
            headers=headers(spec.headers, request.raw, action, content, secret, int(time.time())),
            most_bytes=spec.max_response_bytes,
        )

    def _secret(self, name: str) -> bytes:
        """Return the secret, read anew each time, so that it can be changed while the service runs.

        Raises:
            SecretError: it is not there, or empty.
        """
        if not name:
            return b""
        try:
            found = (Path(self._secrets) / name).read_bytes().strip() if self._secrets else b""
        except OSError as error:
            raise SecretError(f"Signing secret {name!r} cannot be read: {error.strerror}") from error
        if not found:
            raise SecretError(
                f"Signing secret {name!r} is not there, or CHECK_WEBHOOK_SECRETS_DIR is not set"
            )
        return found


def _spec(request: WebhookRequest) -> WebhookCheckConfigSpec:
    """Return the parameters as they are now: those of the request are as of the call's beginning."""
    try:
        return msgspec.convert(request.raw.parameters_spec or {}, WebhookCheckConfigSpec)
    except msgspec.ValidationError:
        return request.parameters


def make(config: Config) -> Controller:
    """Return the controller, to be run."""
    settings = Settings(concurrency=config.concurrency, timeout_s=None)
    app = Controller(config.controller, settings)
    http = Http(concurrency=config.concurrency)
    caller = Caller(http, config.secrets_dir)

    webhook = app.check(parameters=WebhookCheckConfigSpec)(caller.check)
    webhook.watch(caller.watch)
    webhook.on_stop(caller.cancel)

    @app.lifespan
    @asynccontextmanager
    async def connections(_: Controller) -> AsyncIterator[None]:
        async with http:
            yield

    return app
