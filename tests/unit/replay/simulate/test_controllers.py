"""What controllers of admission checks are taken to answer in another run."""

import pytest

from sluice.events.base import WorkloadKey
from sluice.events.checks import ChecksRequested
from sluice.events.codec import encode_message
from sluice.log.contract import Entry
from sluice.replay.simulate.controllers import Verdicts


def learnt(*states: str) -> Verdicts:
    """Return what is known of a job `a`, whose check said this, attempt by attempt."""
    known = Verdicts()
    key = WorkloadKey("ns/a")
    for attempt, state in enumerate(states, 1):
        known.learn(ChecksRequested(cause=0, workload=key, attempt=attempt, checks=("gpu",)), attempt)
        data = {"workload": key, "check": "gpu", "attempt": attempt, "state": state}
        payload = encode_message(
            message_id=str(attempt), source="x", event_type="CheckVerdict", subject=key, at=attempt, data=data
        )
        assert known.heard(Entry(attempt, "verdict.gpu", attempt, payload))
    return known


@pytest.mark.parametrize(
    ("states", "attempt", "said", "assumed"),
    [
        (("Retry", "Ready"), 1, ["Retry"], False),
        (("Retry", "Ready"), 2, ["Ready"], False),
        (("Retry", "Ready"), 3, ["Ready"], True),
        (("Retry", "Rejected"), 3, ["Rejected"], True),
        (("Retry", "Retry"), 3, [], True),
    ],
)
def test_a_check_is_taken_to_say_retry_no_more_often_than_it_did(
    states: tuple[str, ...], attempt: int, said: list[str], assumed: bool
) -> None:
    """Else a run would go on for a week of attempts after the log's end, each of a few seconds."""
    answers, is_assumed = learnt(*states).of("ns/a", "gpu", attempt)
    assert ([answer.data["state"] for answer in answers], is_assumed) == (said, assumed)
