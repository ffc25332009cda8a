"""The pages of the documentation, and what stands in them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([ROOT / "README.md", ROOT / "proto" / "README.md", *(ROOT / "docs").rglob("*.md")])

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_OPERATORS = ("|", "&&", ";", "||", "&", ">", "<", ">>")


class Command(NamedTuple):
    """A `sluice` command line of a page: its words after `sluice`. One in a sentence may lack arguments."""

    page: str
    text: str
    words: list[str]
    in_sentence: bool


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(text: str) -> str:
    """Return a page without its code blocks."""
    return _FENCE.sub("", text)


def blocks(text: str, *languages: str) -> Iterator[str]:
    """Yield the code blocks of these languages."""
    for match in _FENCE.finditer(text):
        if match[1] in languages:
            yield match[2]


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield command lines (of shell blocks, after `$` in console blocks, in spans), and if it is a span."""
    for block in blocks(text, "sh", "shell", "bash"):
        yield from ((line, False) for line in block.replace("\\\n", " ").splitlines())
    for block in blocks(text, "console"):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                yield line[2:], False
    for match in _SPAN.finditer(prose(text)):
        if match[1].startswith("sluice "):
            # As in a usage line: optional parts in brackets, a number where there is a name for one.
            text = re.sub(r" *\[[^]]*\]", "", match[1])
            yield re.sub(r"\b(SEQ|COUNT)\b", "1", text), True


def _segments(line: str) -> Iterator[list[str]]:
    """Yield the commands of a shell line, one by one."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    current: list[str] = []
    for word in lexer:
        if word in _OPERATORS:
            yield current
            # What follows < or > is a file's name.
            current = [] if word not in (">", "<", ">>") else ["file"]
        else:
            current.append(word)
    yield current


def commands(page: Path) -> Iterator[Command]:
    """Yield the `sluice` commands of a page. Lines with an ellipsis only allude to one."""
    for line, in_sentence in _lines(page.read_text()):
        if "..." in line or "…" in line or line.startswith("source "):
            continue
        for words in _segments(line):
            start = _start(words)
            if start is not None:
                yield Command(name(page), line, words[start:], in_sentence)


def _start(words: list[str]) -> int | None:
    """Return where the words after `sluice` begin; None when it is another command."""
    if words[:1] == ["sluice"]:
        return 1
    if words[:1] == ["docker"] and "run" in words and "sluice" in words:
        return words.index("sluice") + 1
    return None
