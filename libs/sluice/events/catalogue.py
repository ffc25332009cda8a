"""Catalogue of events and their writers: one module per writer, which names it in `WRITER`."""

from collections.abc import Mapping
from types import MappingProxyType, ModuleType

from . import checks, config, dispatch, scheduler, slices, variants
from .base import Event

_MODULES: tuple[ModuleType, ...] = (config, slices, variants, scheduler, checks, dispatch)


def _tag(cls: type[Event]) -> str:
    tag = cls.__struct_config__.tag
    assert isinstance(tag, str)
    return tag


def _written_by(module: ModuleType) -> tuple[type[Event], ...]:
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Event) and value.__module__ == module.__name__
    ]
    return tuple(sorted(found, key=_tag))


WRITERS: Mapping[str, tuple[type[Event], ...]] = MappingProxyType(
    {module.WRITER: _written_by(module) for module in _MODULES}
)
"""Writer (the subject after the cell) -> its events, ordered by tag."""

EVENTS: Mapping[str, type[Event]] = MappingProxyType(
    {_tag(cls): cls for events in WRITERS.values() for cls in events}
)
"""Tag -> event, of all writers."""

REFUSALS: tuple[type[Event], ...] = (
    slices.Rejected,
    checks.CheckInputRejected,
    dispatch.ReportRejected,
)
"""Those that say that a message from outside could not be taken: what people are told of as rejected."""

_WRITER_OF: Mapping[type[Event], str] = MappingProxyType(
    {cls: writer for writer, events in WRITERS.items() for cls in events}
)

VERSIONS: Mapping[str, int] = MappingProxyType(dict.fromkeys(WRITERS, 1))
"""Writer -> version of its events, as its commits say it. Goes up when a tag is retired (see `upcast`)."""


SINCE: Mapping[str, str] = MappingProxyType({})
"""Writer -> the oldest release that may go on from its commits, as they say it; none: every release.

Named from when an event has a field, or a value of one, that older code would pass over and fold to something
else. A tag or a version that older code does not know needs none: it finds these out by itself."""


def writer_of(cls: type[Event]) -> str:
    """Return the writer of an event of the catalogue."""
    return _WRITER_OF[cls]
