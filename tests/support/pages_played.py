"""A page of the documentation, played: its files written, its commands run, what they print compared.

- A block of yaml, python or js whose first line is a comment with a file's name is that file.
- A block `console` has commands behind `$`, and below each all that it prints: a line `...` stands for any
  lines, `...` within a line for anything. A command with nothing below it has to succeed, whatever it prints.
- What differs from run to run (times, durations, sequences, generated parts of names) compares equal.
- A command that ends with `&` runs until `kill %1` (the first of these) or the page's end. One that only
  looks is tried again until it shows what the page has: what a cell does takes a moment.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_FOR_COMMAND_S = 180.0
FILES = ("yaml", "python", "js", "json", "sh")
PICTURES = ("mermaid", "text")

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"^(?:#|//) ([\w./-]+\.\w+)$")
_LOOKS = re.compile(
    r"^(cat|sluice (get|describe|why|who-preempted|trace|events|logs|status|check (list|describe)|log))\b"
)
_VARIES = (
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?", "<time>"),
    (r"\b\d\d:\d\d:\d\d(\.\d+)?\b", "<time>"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uid>"),
    (r"(?<=-)[0-9a-f]{5}\b", "<hash>"),
    (r"\b(\d+d)?(\d+h)?(\d+m)?\d+(\.\d+)?(s|ms)\b", "<duration>"),
    (r"127\.0\.0\.1:\d+", "<address>"),
    (r"\bagent-\d\b", "<agent>"),
    (r"\bpid \d+ on \S+", "<process>"),
    (r"(?m)^\d+ (?=<time>|Job\w+ of )", "<sequence> "),
    (r"(?<==)\d+$", "<sequence>"),
    (r"(?m)^(<sequence> <time> \w+) \d+ ", r"\1 <sequence> "),
    (r"\bevent \d+\b", "event <sequence>"),
    (r"(\bsequence|\bmessage|\bcommit|\bby|\btrace|\bsequence:|\bseq\"?:) \d+", r"\1 <sequence>"),
)


@dataclass(frozen=True)
class Step:
    """A file to be written, or a command with what the page shows of its output."""

    text: str
    shown: str = ""
    file: str = ""


class NotAsShown(AssertionError):
    """A command printed something else than the page says, or failed."""


def steps(page: str) -> Iterator[Step]:
    """Yield what a page says is to be done, in order.

    Raises:
        ValueError: a block is neither run, nor a file, nor a picture.
    """
    for language, text in _BLOCK.findall(page):
        if language == "console":
            for part in re.split(r"(?m)^\$ ", text)[1:]:
                command, shown = _command(part)
                yield Step(command, shown)
        elif language in FILES and (named := _NAMED.match(text.partition("\n")[0])):
            yield Step(text, file=named[1])
        elif language not in PICTURES:
            raise ValueError(f"no test would run this block: {text[:80]!r}")


def _command(part: str) -> tuple[str, str]:
    lines = part.splitlines()
    end = next(number for number, line in enumerate(lines) if not line.endswith("\\"))
    return "\n".join(lines[: end + 1]), "\n".join(lines[end + 1 :]).strip("\n")


def normal(text: str) -> str:
    """Return *text* without what differs from run to run."""
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
    text = "\n".join(line for line in lines if line)
    for pattern, instead in _VARIES:
        text = re.sub(pattern, instead, text)
    return text


def is_as_shown(shown: str, printed: str) -> bool:
    """Tell whether a command printed what the page shows.

    >>> is_as_shown("NAME AGE\\n...\\nb ...", "NAME   AGE\\na      3s\\nb      7s\\n")
    True
    >>> is_as_shown("NAME AGE", "NAME   AGE\\na      3s\\n")
    False
    """
    pattern = ""
    for line in normal(shown).splitlines():
        if line == "...":
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += r"[^\n]*".join(re.escape(part.strip()) for part in line.split("...")) + r"\n"
    return re.fullmatch(pattern, normal(printed) + "\n") is not None


@dataclass
class Reader:
    """Somebody who does what a page says, in a folder of their own; `end` ends what is left running."""

    directory: Path
    left: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "examples").symlink_to(ROOT / "examples")
        self.env = {
            key: value for key, value in os.environ.items() if not key.startswith(("SLUICE_", "NATS_"))
        } | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.directory),
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }

    def does(self, step: Step) -> str:
        """Do one step, and return what it printed.

        Raises:
            NotAsShown: it failed though nothing is shown, or printed something else than is shown.
        """
        if step.file:
            (self.directory / step.file).write_text(step.text)
            return ""
        if step.text.endswith("&"):
            command = step.text.removesuffix("&")
            self.left.append(
                subprocess.Popen(
                    ["bash", "-c", f"exec {command}"],
                    cwd=self.directory,
                    env=self.env,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            )
            return ""
        if ended := re.fullmatch(r"kill %(\d+)", step.text):
            _end(self.left[int(ended[1]) - 1])
            return ""
        attempts: list[tuple[int, str]] = []

        def is_right() -> bool:
            code, printed = self._run(step.text)
            attempts.append((code, printed))
            return is_as_shown(step.shown, printed) if step.shown else code == 0

        with contextlib.suppress(AssertionError):
            if is_right() or (_LOOKS.match(step.text) and wait_until(is_right)):
                return attempts[-1][1]
        code, printed = attempts[-1]
        raise NotAsShown(f"$ {step.text}\nexit {code}, printed:\n{printed}\nshown:\n{step.shown}")

    def _run(self, command: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.directory,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_FOR_COMMAND_S,
            check=False,
            text=True,
        )
        return done.returncode, done.stdout

    def end(self) -> None:
        """End what runs in the background, and the cell if there is one."""
        for process in reversed(self.left):
            _end(process)
        if (self.directory / ".sluice").exists():
            self._run("sluice down")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
