"""What a controller publishes is what the check service takes: else it waits for what nobody reads."""

import pytest

from sluice.api.kueue import PodSetUpdate
from sluice.core.checks.intake import verdict
from sluice.events.envelope import Message
from sluice.protocol.checks import VERDICT_MOST, CheckVerdict
from sluice.sdk.checks import Ready
from sluice.sdk.checks.testing import make_request
from sluice.sdk.checks.verdict_messages import RefusedError, encode, to_verdict


def answer(size: int) -> CheckVerdict:
    update = PodSetUpdate(name="main", annotations={"example.com/data": "x" * size})
    return to_verdict(make_request(), Ready((update,)))


@pytest.mark.parametrize("size", [0, VERDICT_MOST // 2, VERDICT_MOST - 1000])
def test_what_is_published_is_taken(size: int) -> None:
    said = answer(size)
    payload = encode("controller/c", "id", 0, said, None)

    _, found = verdict(Message(subject="verdict.c", payload=payload), 1)

    assert not found.errors
    assert found.data is not None
    assert list(found.data.pod_set_updates) == list(said.pod_set_updates)


@pytest.mark.parametrize("size", [VERDICT_MOST, 2 * VERDICT_MOST])
def test_what_is_too_large_is_refused_where_it_is_made(size: int) -> None:
    with pytest.raises(RefusedError, match="at most"):
        encode("controller/c", "id", 0, answer(size), None)
