"""Questions that take long: who goes takes nothing from who asks the same next."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sluice.log.runtime.question_pool import PoolBusyError, QuestionPool
from tests.support.waiting import eventually


def never() -> int:
    signal.pause()
    return 0


def at_once() -> int:
    return 42


def ask(questions: QuestionPool, key: str, work: Callable[[], int]) -> Coroutine[Any, Any, int]:
    return questions.ask(key, work, lasts=bool)


async def test_the_same_question_asked_again_as_its_first_asker_goes_is_one_question() -> None:
    """It counts against the limit as long as it is worked on, and is answered."""
    questions = QuestionPool(at_once=1, waiting=0, answer_s=60)
    first = asyncio.create_task(ask(questions, "k", never))
    await eventually(lambda: questions.running == 1)
    first.cancel()
    second = asyncio.create_task(ask(questions, "k", never))
    with pytest.raises(asyncio.CancelledError):
        await first
    await eventually(lambda: (questions.running, questions.waiting) == (1, 0))
    with pytest.raises(PoolBusyError):
        await ask(questions, "other", at_once)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert await ask(questions, "k", at_once) == 42
    assert (questions.running, questions.waiting) == (0, 0)


async def test_who_takes_too_long_is_ended_and_said_so() -> None:
    questions = QuestionPool(at_once=1, waiting=0, answer_s=0.1)
    with pytest.raises(TimeoutError, match="no answer in 0"):
        await ask(questions, "k", never)
    assert (questions.running, questions.waiting) == (0, 0), "its place is free for the next one"


async def test_what_does_not_last_is_found_anew() -> None:
    questions = QuestionPool(at_once=1, waiting=0, answer_s=60)
    assert await questions.ask("k", at_once, lasts=lambda _: False) == 42
    assert await ask(questions, "k", lambda: 43) == 43
    assert await ask(questions, "k", at_once) == 43, "remembered"
