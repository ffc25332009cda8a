"""Problems with a request; each knows its HTTP answer."""

from collections.abc import Iterable

from sluice.replay.source.suggest import nearest


class ProblemError(Exception):
    """A request that gets no answer but this."""

    status, code = 400, "BadRequest"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class NotFoundError(ProblemError):
    status, code = 404, "NotFound"

    def __init__(self, kind: str, name: str, known: Iterable[str] = ()) -> None:
        near = nearest(name, known)
        super().__init__(f"there is no {kind} {name!r}", f"did you mean {near}?" if near else "")


class UnauthorizedError(ProblemError):
    status, code = 401, "Unauthorized"


class ForbiddenError(ProblemError):
    status, code = 403, "Forbidden"


class MisdirectedError(ProblemError):
    """Of a Host that is not this server's: DNS rebinding."""

    status, code = 421, "Misdirected"


class BusyError(ProblemError):
    status, code = 429, "TooManyRequests"


class UnavailableError(ProblemError):
    status, code = 503, "Unavailable"


class TimeoutProblemError(ProblemError):
    status, code = 504, "Timeout"
