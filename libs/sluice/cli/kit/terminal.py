"""The only way to the terminal: what others have said cannot steer it.

Names, messages and errors come from manifests, executors and strangers. `echo` shows their control characters
as `\\u001b`; colours are added by `style` and nothing else.
"""

import os
import re
from typing import IO, Any

import click

_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but tab and newline, what turns the direction of text, and halves of characters."""

_ESCAPE = f"\ue000{os.urandom(8).hex()}\ue001"
"""Stands for the ESC of our own colours until the text is printed; nobody else can know it."""


def printable(text: str) -> str:
    """Return *text* with its steering characters spelled out, as JSON spells them.

    >>> printable("a\\x1b[31m")
    'a\\\\u001b[31m'
    """
    return text if text.isprintable() else _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def style(text: str, **looks: Any) -> str:
    """Return *text* with colours and such (`click.style`), for `echo`."""
    return click.style(printable(text), **looks).replace("\x1b", _ESCAPE)


def plain(text: str) -> str:
    """Return *text* without what `style` has added."""
    return click.unstyle(text.replace(_ESCAPE, "\x1b"))


def echo(message: object = "", *, err: bool = False, nl: bool = True, file: IO[Any] | None = None) -> None:
    """Print a text, of whomever it may be."""
    click.echo(printable(str(message)).replace(_ESCAPE, "\x1b"), err=err, nl=nl, file=file)


def echo_over(text: str = "") -> None:
    """Print *text* in the place of the terminal's last line, on standard error."""
    click.echo(f"\r\x1b[K{printable(text).replace(_ESCAPE, chr(27))}", nl=False, err=True)
