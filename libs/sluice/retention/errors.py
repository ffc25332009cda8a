"""Errors that stop retention. Nothing was cut when one of these is raised."""

from sluice.log.errors import EventLogError


class RetentionError(EventLogError):
    """Something does not fit; the message says what, and what to do."""


class ArchiveError(RetentionError):
    """The archive is damaged, or is another log's."""


class NotVerifiedError(RetentionError):
    """Folding the archive does not lead to the base: one of them is wrong."""


class NoStateYetError(RetentionError):
    """A service has decided nothing for long, or is not done deciding: there is no state to store yet."""
