"""What a webhook's answer means is told in words of JSON, not of the language that reads it."""

import pytest

from sluice.services.check_webhook.exchange import FailureError, Reply, parse_answer
from sluice.services.common.http import Answer


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            b'{"state":"Retry","requeueAfterSeconds":5.0}',
            "requeueAfterSeconds: Invalid value: 5.0: expected integer, got number",
        ),
        (
            b'{"state":"Ready","more":1,"podSetUpdates":[{"name":"a","labels":{"zone":1}}]}',
            "podSetUpdates[0].labels[zone]: Invalid value: 1: expected string, got integer; put it in quotes",
        ),
        (
            b'{"state":"Maybe"}',
            'state: Unsupported value: "Maybe": supported values: "Pending", "Ready", "Rejected", "Retry"',
        ),
        (b"{}", "state: Required value"),
        (b"[]", "Invalid value: []: expected mapping, got list"),
        (b"{", "Input data was truncated"),
    ],
)
def test_what_cannot_be_read(content: bytes, text: str) -> None:
    with pytest.raises(FailureError) as error:
        parse_answer(Answer(200, {}, content), "http://hook")
    assert str(error.value) == f"the answer cannot be read: {text}"


def test_other_fields_may_stand_in_it() -> None:
    assert parse_answer(Answer(200, {}, b'{"state":"Ready","more":1}'), "http://hook") == Reply(state="Ready")
