"""The command line, run in this process."""

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from sluice.cli.main import main


@dataclass(frozen=True)
class Said:
    """What one call of the command line did."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def ok(self) -> "Said":
        assert self.code == 0, f"exit {self.code}\n{self.out}\n{self.err}"
        return self


def sluice(*arguments: str, stdin: str = "", env: dict[str, str] | None = None) -> Said:
    """Run the command in this process."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    given = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        patch.object(sys, "stdin", given),
        patch.dict(os.environ, env or {}),
    ):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    return Said(code, out.getvalue(), err.getvalue())


Sluice = Callable[..., Said]
