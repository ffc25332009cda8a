"""Logs: one line per event, JSON for machines or plain for people, on standard error."""

import contextlib
import json
import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, TextIO, cast

import msgspec
import structlog

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}

_ENCODER = msgspec.json.Encoder(enc_hook=repr)


class _Forgiving:
    """Where lines are written, or lost: a disk that is full must not end who only wanted to say something."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


def _json(_: object, __: str, event: MutableMapping[str, Any]) -> str:
    try:
        return _ENCODER.encode(event).decode()
    except Exception:
        # A file's name that is no Unicode, or what cannot show itself: the line is written all the same.
        return json.dumps(event, default=_shown, skipkeys=True)


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:
        return f"<{type(value).__name__}: {type(error).__name__}>"


def _traced(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Say in which span a line was written, if there is one: as OpenTelemetry's own logs do."""
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry.trace import get_current_span

        span = get_current_span().get_span_context()
        if span.is_valid:
            event["trace_id"], event["span_id"] = f"{span.trace_id:032x}", f"{span.span_id:016x}"
    return event


def configure_logs(service: str, instance: str, env: Mapping[str, str], stream: TextIO | None = None) -> None:
    """Set up structlog, and the standard library's loggers with it.

    SLUICE_LOG_LEVEL: debug, info (default), warning, error. SLUICE_LOG_FORMAT: console or json; by default
    console on a terminal.

    Raises:
        ValueError: a variable has another value; names it.
    """
    out = stream or sys.stderr
    level = env.get("SLUICE_LOG_LEVEL", "info").lower()
    if level not in LEVELS:
        raise ValueError(f"SLUICE_LOG_LEVEL={level!r}: expected one of {', '.join(LEVELS)}")
    style = env.get("SLUICE_LOG_FORMAT") or ("console" if out.isatty() else "json")
    if style not in ("console", "json"):
        raise ValueError(f"SLUICE_LOG_FORMAT={style!r}: expected console or json")
    renderer: Any = _json if style == "json" else structlog.dev.ConsoleRenderer(colors=out.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _traced,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info if style == "json" else _keep,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _Forgiving(out))),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(service=service, instance=instance)
    logging.basicConfig(
        level=max(LEVELS[level], logging.WARNING),
        stream=out,
        format="%(levelname)s %(name)s %(message)s",
        force=True,
    )


def _keep(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return event
