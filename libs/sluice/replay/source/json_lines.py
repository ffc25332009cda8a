"""A log as text: one JSON object per line, for golden logs, bug reports and other tools.

    {"seq": 7, "subject": "job.default.train", "at": 1767225600000000, "data": {...}}

`data` is the message as it stands in the log, byte for byte; what is not JSON on one line is `base64`.
"""

import base64
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.events.base import Micros
from sluice.log.contract import Entry

__all__ = ["write"]


BATCH = 1000
"""Lines read at once, and between two places that are remembered."""

MAX_LINE = 16 << 20
"""A longer line is no message: one of 8 MiB comes to 11 MiB."""

MAX_SUBJECT = 32 << 10
"""The server takes 4 KiB, and a byte that is no text comes to four characters."""


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message. `subject` is what comes after the cell."""

    seq: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
    subject: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_SUBJECT)]
    at: Annotated[Micros, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
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


class Lines:
    """A file of lines, read once to check it; then from any sequence on, without holding it.

    Raises:
        LineError: a line is no message, or does not come after the one before.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.first = self.end = 0
        self._places: list[tuple[int, int, int]] = []
        """Sequence, offset and number of each `BATCH`th line."""
        with path.open("rb") as file:
            offset, number = 0, 1
            while lines := list(islice(_lines(file), BATCH)):
                entries = list(read(lines, number, self.end))
                self._places.append((entries[0].seq, offset, number))
                self.first = self.first or entries[0].seq
                self.end = entries[-1].seq
                offset += sum(map(len, lines))
                number += len(lines)

    def read(self, start: int, until: int) -> Iterator[list[Entry]]:
        """Yield the entries from *start* to *until*, both included."""
        place = max(0, bisect_right(self._places, start, key=itemgetter(0)) - 1)
        with self.path.open("rb") as file:
            for seq, offset, number in self._places[place:]:
                if seq > until:
                    return
                file.seek(offset)
                entries = list(read(islice(_lines(file), BATCH), number))
                if entries[0].seq < start or entries[-1].seq > until:
                    entries = [entry for entry in entries if start <= entry.seq <= until]
                if entries:
                    yield entries


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines; one that is too long is cut, which makes no JSON of it, and is the last."""
    while line := file.readline(MAX_LINE):
        yield line
        if len(line) == MAX_LINE:
            return


def read(file: Iterable[bytes], number: int = 1, last: int = 0) -> Iterator[Entry]:
    """Yield the entries of a file (or of any lines), in its order.

    *number* and *last*: of the first line, and the sequence before it.

    Raises:
        LineError: a line is no message, or does not come after the one before.
    """
    for place, text in enumerate(file, number):
        try:
            line = _LINES.decode(text)
            payload = bytes(line.data) or base64.b64decode(line.base64, validate=True)
        except (ValueError, RecursionError) as error:
            raise LineError(place, str(error)) from error
        if line.seq <= last:
            raise LineError(place, f"sequence {line.seq} after {last}")
        last = line.seq
        yield Entry(line.seq, line.subject, line.at, payload)


def _is_line(payload: bytes) -> bool:
    """Tell whether the payload can stand in a line as it is."""
    if b"\n" in payload or b"\r" in payload:
        return False
    try:
        payload.decode()
        return bytes(msgspec.json.decode(payload, type=msgspec.Raw)) == payload != b""
    except UNREADABLE:
        return False
