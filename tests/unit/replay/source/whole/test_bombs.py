"""Files from strangers: small ones that stand for gigabytes, and untrue counts, are refused in words.

Nothing is decompressed beyond what a block's head says, so that none of them takes time or memory.
"""

import gzip
import hashlib
import resource
import struct
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import msgspec
import pytest

from sluice.cli.main import cli
from sluice.core.scheduler.decider import Scheduler
from sluice.log.contract import Entry
from sluice.log.fold import Fold
from sluice.log.inflating import inflated
from sluice.replay.simulate import cluster_traces
from sluice.replay.simulate.cluster_traces import TraceError, read_trace
from sluice.replay.source import json_lines
from sluice.replay.source.log_file import Header, LogFileError, Trailer, write
from sluice.replay.source.source import FileSource
from tests.support.command import sluice

MiB = 1 << 20
ENTRY = struct.Struct(">QqHI")
HEADER = msgspec.json.encode(Header())


@cache
def zeros(size: int) -> bytes:
    """Return *size* zeros, compressed, without ever having had them."""
    packing = zlib.compressobj(1)
    return b"".join([*(packing.compress(bytes(MiB)) for _ in range(size // MiB)), packing.flush()])


class Forged:
    """A log file whose heads say what they are told to; checksums are right, as anybody can compute them."""

    def __init__(self, header: bytes = HEADER, raw_size: int | None = None) -> None:
        self.parts, self.digest = [b"SLUICE-LOG 1\n"], hashlib.sha256()
        self.last = 0
        self.block(b"H", zlib.compress(header), len(header) if raw_size is None else raw_size, 0, 0)

    def block(self, kind: bytes, data: bytes, raw_size: int, first: int, last: int) -> "Forged":
        head = struct.pack(
            ">cIIIQQqq", kind, len(data), raw_size, zlib.crc32(data), first, last, 1_000, 2_000
        )
        if kind != b"Z":
            self.digest.update(head)
        self.parts += [head, data]
        self.last = last
        return self

    def entries(self, raw: bytes, first: int, last: int) -> "Forged":
        return self.block(b"E", zlib.compress(raw), len(raw), first, last)

    def at(self, path: Path, trailer: bytes = b"") -> Path:
        end = trailer or msgspec.json.encode(
            Trailer(entries=1, first=1, last=self.last, sha256=self.digest.hexdigest())
        )
        self.block(b"Z", zlib.compress(end), len(end), 0, 0)
        path.write_bytes(b"".join(self.parts))
        return path


def entry(seq: int, name: bytes = b"config", payload: bytes = b"{}", *, longer: int = 0) -> bytes:
    return ENTRY.pack(seq, seq * 1000, len(name), len(payload) + longer) + name + payload


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some megabytes of blocks, each of which stands, as it says, for the 64 MiB that are allowed: 5.2 GB."""
    data = zeros(64 * MiB)
    forged = Forged()
    for number in range(78):
        forged.block(b"E", data, 64 * MiB, number + 1, number + 1)
    path = forged.at(tmp_path_factory.mktemp("bombs") / "bomb.slog")
    assert path.stat().st_size < 30_000_000
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.slog"


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Allow the process less than the smallest of the bombs."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 200 * MiB, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def readers(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield each command that reads a log file, with everything that it must be given."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from readers(found, (*words, name))
        return
    if not any("--log" in parameter.opts for parameter in command.params) and words != ("log", "import"):
        return
    given = list(words)
    values = {"--invariant": "chain"}
    for parameter in command.params:
        if "--log" in parameter.opts:
            given += ["--log", "FILE"]
        elif isinstance(parameter, click.Argument) and parameter.required:
            given.append("FILE" if words == ("log", "import") else "1")
        elif parameter.required:
            given += [parameter.opts[-1], values.get(parameter.opts[-1], "1")]
    yield tuple(given)


COMMANDS = sorted(readers(cli))


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_refuses_a_bomb(words, bomb, tmp_path, monkeypatch):
    """In one sentence that names the file, before anything of it was decompressed."""
    monkeypatch.chdir(tmp_path)
    said = sluice(*(str(bomb) if word == "FILE" else word for word in words))
    assert said.code == 1, said
    assert f"{bomb}: refused" in said.err
    assert "Traceback" not in said.err


def test_there_are_such_commands():
    assert len(COMMANDS) >= 15
    assert ("log", "import", "FILE") in COMMANDS


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("said", [0, 1, 1000, 2 * MiB])
def test_no_more_is_decompressed_than_a_block_says(path, said):
    """Whatever its head says, nobody gets all that lies in it."""
    FileSource(Forged().block(b"E", zeros(256 * MiB), said, 1, 1).at(path))
    with pytest.raises(LogFileError, match=r"in 1-1$"):
        list(FileSource(path).read())


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("said", [10, 60_000, 64 * MiB, 2**32 - 1])
def test_headers_and_trailers_are_bounded_too(path, said):
    for kind in (b"H", b"Z"):
        forged = Forged()
        forged.parts = forged.parts[: 1 if kind == b"H" else 3]
        path.write_bytes(b"".join(forged.block(kind, zeros(256 * MiB), said, 0, 0).parts))
        with pytest.raises(LogFileError, match="damaged"):
            FileSource(path)


@pytest.mark.parametrize(
    ("raw", "first", "last"),
    [
        (entry(1)[:10], 1, 1),
        (entry(1, longer=1), 1, 1),
        (entry(1, longer=2**31), 1, 1),
        (entry(1)[:-5], 1, 1),
        (entry(1, b"job.default.\xff"), 1, 1),
        (entry(1, b""), 1, 1),
        (entry(2) + entry(1), 1, 2),
        (entry(1) + entry(1), 1, 1),
        (entry(1), 1, 2),
        (entry(1), 2, 2),
        (b"", 1, 1),
    ],
)
def test_messages_that_are_not_what_the_head_says(path, raw, first, last):
    source = FileSource(Forged().entries(raw, first, last).at(path))
    with pytest.raises(LogFileError, match="damaged"):
        list(source.read())


@pytest.mark.parametrize(("first", "last"), [(0, 1), (2, 1), (1, 2**63), (2**64 - 1, 2**64 - 1)])
def test_sequences_that_no_log_has(path, first, last):
    with pytest.raises(LogFileError, match="damaged: sequences"):
        FileSource(Forged().entries(entry(1), first, last).at(path))


def test_blocks_that_overlap(path):
    forged = Forged().entries(entry(1) + entry(3), 1, 3).entries(entry(2) + entry(4), 2, 4)
    with pytest.raises(LogFileError, match="damaged: sequences 2 to 4, after sequence 3"):
        FileSource(forged.at(path))


@pytest.mark.parametrize("words", [b"", b"[" * 50_000, b'{"cell":"\xff"}', b"\xff", b"[1]"])
def test_words_that_cannot_be_read(path, words):
    for forged, trailer in ((Forged(words), b""), (Forged(), words or b" ")):
        with pytest.raises(LogFileError, match=r"damaged header|after sequence 0"):
            FileSource(forged.at(path, trailer))


def test_a_log_of_zeros_is_written_so_that_it_is_no_bomb(path):
    """Whoever may publish could else make a log whose export nobody reads."""
    entries = [Entry(seq, "job.default.a", seq, bytes(8 * MiB)) for seq in range(1, 40)]
    with path.open("wb") as file:
        write(file, Header(), ([each] for each in entries))
    assert sum(len(batch) for batch in FileSource(path).read()) == 39


@pytest.mark.usefixtures("little_memory")
def test_what_is_said_of_a_state_bounds_it():
    data = zeros(256 * MiB)
    for said in (0, 5, 2**40, 2**70):
        with pytest.raises(ValueError, match="said to stand"):
            inflated(data, said)


@pytest.mark.usefixtures("little_memory")
def test_a_state_beside_a_log_that_is_a_bomb_is_passed_over(path):
    source = FileSource(Forged().entries(entry(1), 1, 1).at(path))
    source.sidecar.put(Fold(Scheduler()))
    assert source.snapshot(Scheduler(), 1) is not None
    (state,) = source.sidecar.directory.glob("*.state")
    for rubbish in (zeros(256 * MiB), zlib.compress(b"x"), b"", b"\xff"):
        state.write_bytes(rubbish)
        assert FileSource(path).snapshot(Scheduler(), 1) is None


@pytest.mark.usefixtures("little_memory")
def test_a_line_without_an_end(tmp_path):
    path = tmp_path / "log.jsonl"
    with path.open("wb") as file:
        file.truncate(1024 * MiB)
    with pytest.raises(LogFileError, match="line 1: "):
        FileSource(path)


@pytest.mark.parametrize(
    "line",
    [
        b'{"seq":0,"subject":"config","at":1}',
        b'{"seq":9223372036854775808,"subject":"config","at":1}',
        b'{"seq":1,"subject":"config","at":9223372036854775808}',
        b'{"seq":1,"subject":"","at":1}',
        b'{"seq":1,"subject":"%s","at":1}' % (b"x" * 70_000),
        b'{"seq":1,"subject":"config","at":1,"data":%s}' % (b"[" * 100_000),
    ],
)
def test_lines_that_no_log_has(line):
    with pytest.raises(json_lines.LineError, match="line 1: "):
        list(json_lines.read([line]))


SWF = "1 0 0 60 4 -1 -1 4 -1 -1 1 1 1 1 1 1 -1 -1"


@pytest.mark.parametrize("field", ["nan", "inf", "1e300", "9" * 5000])
def test_numbers_of_a_trace_that_no_trace_has(tmp_path, field):
    for place in range(15):
        fields = SWF.split()
        fields[place] = field
        path = tmp_path / "trace.swf"
        path.write_text(" ".join(fields))
        with pytest.raises(TraceError, match="line 1: "):
            read_trace(path)


@pytest.mark.parametrize(
    "text",
    [
        "Submit|Elapsed|JobID\n2026-01-01T00:00:00|1:00:00",
        "JobID|Submit|ElapsedRaw\n1|2026-01-01T00:00:00|nan",
        f"JobID|Submit|ElapsedRaw|AllocCPUS\n1|2026-01-01T00:00:00|1|{'9' * 400}",
        f"JobID|Submit|Elapsed\n1|2026-01-01T00:00:00|{'9' * 5000}:00",
    ],
)
def test_rows_of_a_trace_that_no_trace_has(tmp_path, text):
    path = tmp_path / "trace.txt"
    path.write_text(text)
    with pytest.raises(TraceError, match="line 2: "):
        read_trace(path)


def test_a_compressed_trace_is_bounded(tmp_path, monkeypatch):
    path = tmp_path / "trace.swf.gz"
    path.write_bytes(gzip.compress(b"; \n" * 1_000_000))
    monkeypatch.setattr(cluster_traces, "MAX_TEXT", 1 << 20)
    with pytest.raises(TraceError, match="more than 1 MiB of text"):
        read_trace(path)
    path.write_bytes(path.read_bytes()[:12] + b"\xff" * 100)
    with pytest.raises(TraceError):
        read_trace(path)
