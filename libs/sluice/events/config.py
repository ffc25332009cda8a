"""Events of the api service: configuration objects."""

from typing import Final

import msgspec

from .base import Event

WRITER: Final = "config"
"""The subject of these events, `sluice.<cell>.config`: on the wire, so it outlives the module's name."""


class ObjectApplied(Event, frozen=True, kw_only=True):
    """The object as it is from here on: defaulted, validated, complete.

    `object` decodes with `sluice.api` by `kind`. `cause` is 0: people act outside the log.
    """

    kind: str
    name: str
    object: msgspec.Raw
    namespace: str = ""
    created: bool = False


class ObjectDeleted(Event, frozen=True, kw_only=True):
    """An object of the configuration is gone."""

    kind: str
    name: str
    namespace: str = ""
