"""Publishes messages to the log: job events as any upstream system does, verdicts as controllers do."""

import getpass
import os
import socket
import time
from typing import Any

from sluice.cli.kit.errors import EXIT_UNAVAILABLE, CliError
from sluice.events.codec import encode_message
from sluice.events.job import JobEvent
from sluice.log.errors import AppendRefusedError, EventLogError
from sluice.log.nats.jetstream import HEADER_ROOM, read_ack
from sluice.protocol.query import Object
from sluice.protocol.subjects import Cell, job_suffix
from sluice.protocol.tracing import carried, from_environment

from .client import Api

ANSWER_S = 10.0


def new_id() -> str:
    """Return an id for a message; the server drops a second one with the same id."""
    return f"{time.time_ns():x}-{os.urandom(4).hex()}"


def source() -> str:
    """Return who publishes, for the log: `sluice-cli/user@host`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"sluice-cli/{user}@{socket.gethostname()}"


async def publish_job_event(api: Api, namespace: str, name: str, data: JobEvent | Object) -> int:
    """Append a job event, or the manifest of a new job, and return its sequence; raises as `publish`."""
    event_type = type(data).__name__ if isinstance(data, JobEvent) else "JobSubmitted"
    return await publish(api, job_suffix(namespace, name), event_type, f"{namespace}/{name}", data)


async def publish(api: Api, suffix: str, event_type: str, about: str, data: Any) -> int:
    """Append one message to the log and return its sequence; *about* is the CloudEvent's subject.

    Raises:
        CliError: the log did not take it.
    """
    cell = Cell(api.target.cell)
    message_id = new_id()
    payload = encode_message(
        message_id=message_id,
        source=source(),
        event_type=event_type,
        subject=about,
        at=time.time_ns() // 1000,
        data=data,
        extensions=carried() or from_environment(os.environ),
    )
    subject, room = cell.subject(suffix), api.max_payload - HEADER_ROOM
    if len(payload) > room:
        raise CliError(
            f"{about}: the message of {len(payload)} bytes is larger than the server takes ({room})"
        )
    try:
        frame = await api.connection.request(subject, payload, {"Nats-Msg-Id": message_id}, ANSWER_S)
        return read_ack(subject, None, frame.payload).seq
    except AppendRefusedError as error:
        raise CliError(f"{event_type} of {about} was refused: {error.detail}") from None
    except (EventLogError, ConnectionError, TimeoutError) as error:
        raise CliError(
            f"the log did not take {event_type} of {about}: {error or type(error).__name__}",
            hint=f"Is there a cell {cell.name!r} at {api.target.shown}? See `sluice status`.",
            exit_code=EXIT_UNAVAILABLE,
        ) from None
