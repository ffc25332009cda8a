"""Global options, as every command gets them."""

from dataclasses import dataclass


@dataclass(slots=True)
class Settings:
    """`server` is a URL; None means what the environment or the directory says."""

    server: str | None = None
    cell: str | None = None
