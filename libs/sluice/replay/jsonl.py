"""A log as text: one JSON object per line, for golden logs, bug reports and other tools.

    {"seq": 7, "subject": "job.default.train", "at": 1767225600000000, "data": {...}}

`data` is the message as it stands in the log, byte for byte; what is not JSON on one line is `base64`.
"""

import base64
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec

from sluice.events.base import Micros
from sluice.log.contract import Entry


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message. `subject` is what comes after the cell."""

    seq: int
    subject: str
    at: Micros
    data: msgspec.Raw = msgspec.Raw(b"")
    base64: str = ""


class LineError(ValueError):
    """A line that is no message; `number` counts from 1."""

    def __init__(self, number: int, detail: str) -> None:
        super().__init__(f"line {number}: {detail}")
        self.number = number


_LINES = msgspec.json.Decoder(Line)


def write(entries: Iterable[Entry], file: BinaryIO) -> int:
    """Write *entries*, and return how many there were."""
    count = 0
    for entry in entries:
        if _is_line(entry.payload):
            line = Line(entry.seq, entry.suffix, entry.at, data=msgspec.Raw(entry.payload))
        else:
            line = Line(entry.seq, entry.suffix, entry.at, base64=base64.b64encode(entry.payload).decode())
        file.write(msgspec.json.encode(line) + b"\n")
        count += 1
    return count


def read(file: Iterable[bytes]) -> Iterator[Entry]:
    """Yield the entries of a file (or of any lines), in its order.

    Raises:
        LineError: a line is no message, or does not come after the one before.
    """
    last = 0
    for number, text in enumerate(file, 1):
        try:
            line = _LINES.decode(text)
            payload = bytes(line.data) or base64.b64decode(line.base64, validate=True)
        except ValueError as error:
            raise LineError(number, str(error)) from error
        if line.seq <= last:
            raise LineError(number, f"sequence {line.seq} after {last}")
        last = line.seq
        yield Entry(line.seq, line.subject, line.at, payload)


def _is_line(payload: bytes) -> bool:
    """Tell whether the payload can stand in a line as it is."""
    if b"\n" in payload or b"\r" in payload:
        return False
    try:
        payload.decode()
        return bytes(msgspec.json.decode(payload, type=msgspec.Raw)) == payload != b""
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
