"""The check machine: whatever is late, lost or another's, each attempt is answered, and none forgotten."""

from typing import Any

import msgspec
import pytest

from sluice.events.base import WorkloadKey
from sluice.protocol.checks import CheckRequest
from sluice.sdk.checks import Controller, Pending, Ready, Rejected, Retry, Settings, Verdict
from sluice.sdk.checks._actions import (
    Action,
    Answered,
    AskFate,
    Call,
    CallEnd,
    CallStop,
    CancelCall,
    Cancelled,
    CancelPublish,
    Failed,
    Found,
    Publication,
    Publish,
    Refused,
    Unanswered,
)
from sluice.sdk.checks._desk import Moment
from sluice.sdk.checks._history import Past
from sluice.sdk.checks._machine import Machine
from sluice.sdk.checks._verdict_messages import Said, to_verdict
from sluice.sdk.checks.testing import make_request

KEY = "key"


async def never(_: Any) -> Any:
    raise AssertionError("the machine calls nothing")


class Drive:
    """Tells a machine what happens, and keeps what it wants done."""

    def __init__(self, *, watch: bool = False, stops: bool = False, **settings: Any) -> None:
        controller = Controller("example.com/c", settings=Settings(**settings))
        check = controller.check(never)
        if watch:
            check.watch(every=30)(never)
        if stops:
            check.on_stop(never)
        self.machine = Machine(controller)
        self.now = 0.0
        self.done: list[Action] = []

    @property
    def moment(self) -> Moment:
        return Moment(self.now, int(self.now * 1_000_000))

    def tell(self, request: CheckRequest | None, key: str = KEY, past: Past | None = None) -> None:
        self.done += self.machine.told(key, request, self.moment, past)

    def end(self, end: CallEnd, which: int = -1) -> None:
        """The newest call (or another) ends."""
        call = self.of(Call)[which]
        self.done += self.machine.call_ended(call.call, end, self.moment)

    def published(self, answer: Publication) -> None:
        self.done += self.machine.published(self.of(Publish)[-1].number, answer, self.moment)

    def stored(self, seq: int = 1) -> None:
        self.published(Found(seq, self.of(Publish)[-1].verdict))

    def stop_ended(self, *, released: bool = True) -> None:
        number = self.of(CallStop)[-1].number
        self.done += self.machine.stop_ended(number, self.moment, released=released)

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while (due := self.machine.deadline) is not None and due <= until:
            self.now = max(self.now, due)
            self.done += self.machine.tick(self.moment)
        self.now = until

    def of[T: Action](self, kind: type[T]) -> list[T]:
        return [action for action in self.done if isinstance(action, kind)]

    def states(self) -> list[str]:
        return [publish.verdict.state for publish in self.of(Publish)]


def ready(request: CheckRequest) -> CheckRequest:
    return msgspec.structs.replace(request, state="Ready")


def again(request: CheckRequest) -> CheckRequest:
    return msgspec.structs.replace(request, attempt=request.attempt + 1)


def test_an_answer_is_published_until_the_log_has_it() -> None:
    """Without an acknowledgement under the same id: it may be there."""
    drive = Drive()
    drive.tell(make_request())
    drive.end(Answered(Ready()))
    for _ in range(3):
        drive.published(Unanswered())
        drive.wait(0.2)
    drive.stored()
    drive.wait(30)
    idents = [publish.ident for publish in drive.of(Publish)]
    assert len(idents) == 4
    assert len(set(idents)) == 1
    assert len(drive.of(Call)) == 1


@pytest.mark.parametrize("unanswered", [0, 1])
def test_a_predecessors_final_verdict_was_first(unanswered: int) -> None:
    """Also when it shows only after a publication that was not answered; nothing is said against it."""
    drive, request = Drive(), make_request()
    drive.tell(request)
    drive.end(Answered(Ready()))
    for _ in range(unanswered):
        drive.published(Unanswered())
        drive.wait(0.2)
    drive.published(Found(7, to_verdict(request, Rejected("no"))))
    drive.wait(30)
    assert len({publish.ident for publish in drive.of(Publish)}) == 1
    assert drive.machine.numbers.repeated == 1
    drive.wait(60)
    assert [ask.said.seq for ask in drive.of(AskFate)] == [7]


def test_a_predecessors_pending_verdict_is_followed_by_this_one() -> None:
    """Under the next id."""
    drive, request = Drive(), make_request()
    drive.tell(request)
    drive.end(Answered(Ready()))
    drive.published(Found(7, to_verdict(request, Pending("wait"))))
    drive.stored(8)
    assert [publish.ident.rpartition(".")[2] for publish in drive.of(Publish)] == ["1", "2"]
    assert drive.states() == ["Ready", "Ready"]


@pytest.mark.parametrize("answer", [Ready(), Rejected("no")])
def test_a_verdict_on_another_request_under_its_id_says_nothing_of_this_one(answer: Verdict) -> None:
    """An older log was put back, so that another workload has had this one's uid: whatever it was told."""
    drive, request = Drive(), make_request()
    drive.tell(request)
    drive.end(Answered(Ready()))
    other = msgspec.structs.replace(to_verdict(request, answer), workload=WorkloadKey("ns/other"))
    drive.published(Found(7, other))
    assert drive.states() == ["Ready", "Ready"]
    assert len({publish.ident for publish in drive.of(Publish)}) == 2
    drive.stored()
    assert drive.machine.numbers.repeated == 0


def test_a_refused_verdict_is_a_failure_that_is_shown() -> None:
    """And the function is called again later."""
    drive = Drive()
    drive.tell(make_request())
    drive.end(Answered(Ready(message="x" * 9000)))
    drive.published(Refused("RefusedError: too large"))
    assert drive.of(Publish)[-1].verdict.message.endswith("RefusedError: too large")
    drive.published(Refused("RefusedError: not allowed"))
    drive.wait(1)
    assert len(drive.of(Call)) == 2


@pytest.mark.parametrize(
    ("past", "unheard", "calls"),
    [
        (None, False, [0.0]),
        (Retry(5), True, [60.0]),
        (Retry(5), False, []),
        (Pending("wait", 90), False, [90.0]),
    ],
)
def test_what_a_predecessor_said_counts(past: Any, unheard: bool, calls: list[float]) -> None:
    """A final verdict is waited for, and the check performed again only if the service passed it over."""
    drive, request = Drive(), make_request()
    said = (
        None if past is None else Said(to_verdict(request, past), 0, 3, getattr(past, "recheck_after", None))
    )
    drive.tell(request, past=Past(1, said))
    called: list[float] = []
    for second in range(110):
        drive.wait(second - drive.now)
        for ask in drive.of(AskFate):
            drive.done += drive.machine.fate(ask.number, drive.moment, unheard=unheard)
        called += [drive.now] * (len(drive.of(Call)) - len(called))
    assert called == calls
    if calls:
        drive.end(Answered(Ready()))
        assert drive.of(Publish)[0].ident.endswith(".1" if past is None else ".2")


def test_refused_answers_are_tried_later_and_later() -> None:
    """However they are refused, by the log or by the service: 1, 2, 4 ... s, until one has its effect."""
    drive, request = Drive(), make_request()
    drive.tell(request)
    called: list[float] = []
    for _ in range(6):
        called.append(drive.now)
        drive.end(Answered(Ready(message="x" * 9000)))
        drive.published(Refused("RefusedError: too large"))
        if len(called) == 1:
            drive.stored()  # that it has failed; it is said once
        while len(drive.of(Call)) == len(called):
            drive.wait(0.5)
    assert called == [0, 1, 3, 7, 15, 31]
    drive.end(Answered(Ready()))
    drive.stored()
    drive.tell(ready(request))
    drive.tell(request)
    drive.end(Failed("boom"))
    drive.stored()
    before = drive.now
    while len(drive.of(Call)) == 8:
        drive.wait(0.5)
    assert drive.now - before == 1


def test_what_the_service_refuses_is_shown_and_tried_later_and_later() -> None:
    """With its reason, while the workload waits."""
    drive = Drive()
    drive.tell(make_request())
    gaps = []
    for number in range(1, 5):
        drive.end(Answered(Ready()))
        drive.stored()
        while len(drive.of(AskFate)) < number:
            drive.wait(1)
        ask = drive.of(AskFate)[-1]
        drive.done += drive.machine.fate(ask.number, drive.moment, unheard=True, why="too long")
        assert drive.of(Publish)[-1].verdict.message.endswith("the cell did not take its verdict: too long")
        drive.stored()
        before = drive.now
        while len(drive.of(Call)) == number:
            drive.wait(0.5)
        gaps.append(drive.now - before)
    assert gaps == [1, 2, 4, 8]


def test_a_refusal_is_found_at_once_and_silence_counts_when_it_is_overdue() -> None:
    """The cell is asked after 1, 2, 4 ... s; that a verdict shows no effect says nothing for a minute."""
    drive = Drive()
    drive.tell(make_request())
    drive.end(Answered(Ready()))
    drive.stored()
    asked = []
    while len(drive.of(Call)) == 1:
        drive.wait(0.5)
        if len(drive.of(AskFate)) > len(asked):
            asked.append(drive.now)
            drive.done += drive.machine.fate(drive.of(AskFate)[-1].number, drive.moment, unheard=True)
    assert asked == [1, 3, 7, 15, 31, 60]
    assert drive.now == 60
    drive.end(Answered(Ready()))
    drive.stored()
    drive.wait(1)
    ask = drive.of(AskFate)[-1]
    drive.done += drive.machine.fate(ask.number, drive.moment, unheard=True, why="no")
    assert drive.of(Publish)[-1].verdict.message.endswith("the cell did not take its verdict: no")
    drive.stored()
    drive.wait(1)
    assert (len(drive.of(Call)), drive.now) == (3, 62)


def test_an_attempt_ends_before_the_next_begins() -> None:
    """Cancelled, released, and only then the successor is called."""
    drive, request = Drive(stops=True), make_request()
    drive.tell(request)
    drive.tell(again(request))
    assert [type(each) for each in drive.of(CancelCall)] == [CancelCall]
    assert not drive.of(CallStop)
    drive.end(Cancelled())
    assert [stop.request.attempt for stop in drive.of(CallStop)] == [1]
    assert len(drive.of(Call)) == 1
    drive.stop_ended()
    assert [call.request.attempt for call in drive.of(Call)] == [1, 2]


def test_a_function_that_ignores_its_cancellation_is_not_waited_for() -> None:
    """What it answers in the end is void; its place is free only then."""
    drive, request = Drive(cancel_s=30, concurrency=1), make_request()
    drive.tell(request)
    drive.tell(again(request))
    drive.wait(29)
    assert drive.machine.numbers.queued == 0
    drive.wait(2)
    assert (drive.machine.numbers.queued, len(drive.of(Call))) == (1, 1)
    drive.end(Answered(Ready()), 0)
    assert not drive.of(Publish)
    assert [call.request.attempt for call in drive.of(Call)] == [1, 2]


def test_on_stop_is_tried_again_and_not_for_ever() -> None:
    """Later and later."""
    drive, request = Drive(stops=True), make_request()
    drive.tell(request)
    drive.tell(None)
    drive.end(Cancelled())
    for tried in range(1, 6):
        assert drive.of(CallStop)[-1].tried == tried
        drive.stop_ended(released=False)
        drive.wait(2.0 ** (tried - 1))
    assert len(drive.of(CallStop)) == 5
    assert not drive.machine.busy


def test_a_withdrawn_attempts_verdict_is_not_waited_for() -> None:
    """Its answer comes too late to count."""
    drive, request = Drive(), make_request()
    drive.tell(request)
    drive.end(Answered(Ready()))
    drive.tell(again(request))
    assert len(drive.of(CancelPublish)) == 1
    drive.stored()
    assert [call.request.attempt for call in drive.of(Call)] == [1, 2]


def test_an_approval_ends_the_call_for_it() -> None:
    """Also one that has hardly begun: then the watch begins, and every place is free."""
    drive, request = Drive(watch=True), make_request()
    drive.tell(request)
    drive.tell(ready(request))
    drive.end(Cancelled())
    assert [call.watching for call in drive.of(Call)] == [False, True]
    drive.tell(None)
    drive.end(Cancelled())
    assert (drive.machine.numbers.running, drive.machine.numbers.cancelled) == (0, 2)


def test_a_cancellation_from_within_is_a_failure() -> None:
    """Else it would be called again at once, for ever."""
    drive = Drive(backoff_s=1)
    drive.tell(make_request())
    drive.end(Cancelled())
    drive.stored()
    assert len(drive.of(Call)) == 1
    drive.wait(1)
    assert len(drive.of(Call)) == 2
    assert "CancelledError" in drive.of(Publish)[0].verdict.message


def test_a_timeout_is_a_failure_and_an_answer_all_the_same_an_answer() -> None:
    """A function may use its cancellation to say what it knows."""
    for end, state in ((Cancelled(), "Pending"), (Answered(Ready()), "Ready")):
        drive = Drive(timeout_s=30)
        drive.tell(make_request())
        drive.wait(31)
        assert len(drive.of(CancelCall)) == 1
        drive.end(end)
        assert drive.states() == [state]


def test_nothing_is_begun_after_stop_and_nothing_done_after_the_end() -> None:
    """What is at work may finish; a lost heartbeat ends everything at once."""
    drive, request = Drive(concurrency=1), make_request()
    drive.tell(request)
    drive.tell(make_request(name="other"), "other")
    drive.done += drive.machine.stop(drive.moment)
    drive.end(Failed("x"))
    assert drive.machine.busy
    drive.stored()
    assert not drive.machine.busy
    drive.wait(600)
    assert len(drive.of(Call)) == 1
    drive.machine.close()
    before = len(drive.done)
    drive.tell(None)
    drive.stored()
    drive.wait(600)
    assert len(drive.done) == before


def test_taken_back_alarms_do_not_pile_up() -> None:
    """Requests come and go by the million."""
    drive = Drive()
    for number in range(1000):
        drive.tell(make_request(), f"{number}")
        drive.end(Answered(Pending("wait", 3600)))
        drive.stored()
        drive.tell(None, f"{number}")
    assert len(drive.machine._desk.alarms._heap) < 250
