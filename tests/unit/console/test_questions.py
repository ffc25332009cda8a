"""Questions that take long: who goes takes nothing from who asks the same next."""

import asyncio
import signal

import pytest

from sluice.console.problems import BusyError
from sluice.console.questions import Questions, Told
from tests.support.waiting import eventually


def never() -> Told:
    signal.pause()
    return Told()


def at_once() -> Told:
    return Told(answer=42)


async def test_the_same_question_asked_again_as_its_first_asker_goes_is_one_question() -> None:
    """It counts against the limit as long as it is worked on, and is answered."""
    questions = Questions(at_once=1, waiting=0)
    first = asyncio.create_task(questions.ask("k", never))
    await eventually(lambda: questions.running == 1)
    first.cancel()
    second = asyncio.create_task(questions.ask("k", never))
    with pytest.raises(asyncio.CancelledError):
        await first
    await eventually(lambda: (questions.running, questions.waiting) == (1, 0))
    with pytest.raises(BusyError):
        await questions.ask("other", at_once)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert await questions.ask("k", at_once) == 42
    assert (questions.running, questions.waiting) == (0, 0)
