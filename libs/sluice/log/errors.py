"""Errors of the log. Fields carry for code what the message says to people."""


class EventLogError(Exception):
    """Base of all faults of the log."""


class StaleSequenceError(EventLogError):
    """Somebody else wrote to the subject since *expected*: this writer is fenced."""

    def __init__(self, subject: str, expected: int, actual: int | None) -> None:
        found = "a later one" if actual is None else str(actual)
        super().__init__(f"{subject}: expected seq {expected}, found {found}")
        self.subject, self.expected, self.actual = subject, expected, actual


class MessageTooLargeError(EventLogError):
    """A message that the server would not take; nothing was written. Sizes in bytes."""

    def __init__(self, subject: str, size: int, limit: int) -> None:
        super().__init__(f"{subject}: message of {size} bytes, the server takes at most {limit}")
        self.subject, self.size, self.limit = subject, size, limit


class StepTooLargeError(MessageTooLargeError):
    """What was decided at once is more than a message holds; `about`: the largest event, and whose it is."""

    def __init__(self, writer: str, upto: int, size: int, limit: int, about: str) -> None:
        super().__init__(writer, size, limit)
        self.args = (
            f"{writer}: the step decided at seq {upto} has {size} bytes, the server takes {limit} at most. "
            f"Its largest event is {about}: delete that, or make it smaller, and {writer} goes on",
        )
        self.upto, self.about = upto, about


class UnansweredError(EventLogError):
    """The server did not answer in time: the message may or may not have been stored."""

    def __init__(self, subject: str, detail: str) -> None:
        super().__init__(f"{subject}: no answer from the log: {detail}")
        self.subject, self.detail = subject, detail


class AppendRefusedError(EventLogError):
    """The server refused the message for another reason than its sequence."""

    def __init__(self, subject: str, code: int, detail: str) -> None:
        super().__init__(f"{subject}: refused ({code}): {detail}")
        self.subject, self.code, self.detail = subject, code, detail


class TooManyMessagesError(AppendRefusedError):
    """More messages than this user may send; nothing was written, and may be in *retry_after_s*."""

    def __init__(self, subject: str, code: int, detail: str, retry_after_s: float) -> None:
        super().__init__(subject, code, detail)
        self.retry_after_s = retry_after_s


class SequenceGapError(EventLogError):
    """The server skipped messages of a reader: *expected* and *actual* are delivery numbers."""

    def __init__(self, stream: str, expected: int, actual: int, position: int) -> None:
        super().__init__(f"{stream}: expected delivery {expected}, got {actual}, after seq {position}")
        self.stream, self.expected, self.actual, self.position = stream, expected, actual, position


class LogUnavailableError(EventLogError):
    """The log cannot be reached or is not set up."""


class NoStreamError(LogUnavailableError):
    """There is no such stream (yet, or any more)."""


class StreamMismatchError(EventLogError):
    """The stream exists with settings that the log must not be run on."""

    def __init__(self, stream: str, differences: list[str]) -> None:
        super().__init__(f"stream {stream}: {'; '.join(differences)}")
        self.stream, self.differences = stream, differences


class ServerError(EventLogError):
    """The embedded server cannot be started or stopped."""


class AlreadyRunningError(ServerError):
    """A server runs in this directory already."""

    def __init__(self, directory: str, url: str, pid: int) -> None:
        super().__init__(f"{directory}: a server is already running at {url} (pid {pid})")
        self.directory, self.url, self.pid = directory, url, pid
