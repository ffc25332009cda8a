"""Questions to a process of its own, and the words for one that has no answer."""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from sluice.log.runtime.process_pool import ChildLostError
from sluice.log.runtime.question_pool import PoolBusyError, QuestionPool

from .problems import BusyError, ProblemError, TimeoutProblemError, UnavailableError

AT_ONCE, WAITING = 2, 8
ANSWER_S = 120.0


class Told(NamedTuple):
    """What a child answers: an answer, or what is wrong with the question."""

    answer: Any = None
    problem: str = ""
    code: str = ""
    hint: str = ""


def pool() -> QuestionPool:
    return QuestionPool(AT_ONCE, WAITING, ANSWER_S)


async def answer_to(questions: QuestionPool, key: Hashable, work: Callable[[], Told]) -> Any:
    """Return the answer to the question that *key* names; *work* finds it, in a copy of this process.

    Raises:
        BusyError: too many ask.
        ProblemError: there is no answer.
    """
    try:
        found = await questions.ask(key, work, lasts=lambda told: not told.problem)
    except PoolBusyError:
        raise BusyError("too many questions wait for an answer", "try again in a few seconds") from None
    except TimeoutError as error:
        raise TimeoutProblemError(str(error)) from None
    except ChildLostError as error:
        text = str(error) or "the process that looked for it was ended"
        raise UnavailableError(text) from None
    if found.problem:
        raise _problem(found)
    return found.answer


def _problem(told: Told) -> ProblemError:
    kind = UnavailableError if told.code == "Unavailable" else ProblemError
    error = kind(told.problem, told.hint)
    if told.code == "NotFound":
        error.status, error.code = 404, "NotFound"
    return error
