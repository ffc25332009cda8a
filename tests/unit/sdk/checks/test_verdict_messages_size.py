"""What a controller publishes is what the check service takes: else it waits for what nobody reads."""

from typing import Any

import pytest

from sluice.api.kueue import PodSetUpdate
from sluice.core.checks.intake import verdict
from sluice.events.envelope import Message
from sluice.protocol.checks import VERDICT_MOST, CheckVerdict
from sluice.sdk.checks import Controller, Ready, Request, Settings
from sluice.sdk.checks._verdict_messages import RefusedError, encode, to_verdict
from sluice.sdk.checks.testing import CheckTester, make_request


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
    with pytest.raises(RefusedError, match="may not be more than"):
        encode("controller/c", "id", 0, answer(size), None)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"node_selector": {"a": 1}}, "nodeSelector"),
    ({"labels": {"a": None}}, "labels"),
    ({"annotations": {"a": ["x"]}}, "annotations"),
    ({"labels": "a"}, "labels"),
    ({"tolerations": ["x"]}, "tolerations"),
]


@pytest.mark.parametrize(("fields", "field"), WRONG, ids=[str(fields) for fields, _ in WRONG])
async def test_what_the_cell_refuses_is_a_failure_where_it_is_made(
    fields: dict[str, Any], field: str
) -> None:
    """At once, with the cell's own text, and in a test without a cell, too."""
    controller = Controller("example.com/c", settings=Settings(backoff_s=1))
    calls: list[float] = []

    @controller.check
    async def check(request: Request[Any]) -> Ready:  # noqa: ARG001
        calls.append(tester.clock.now())
        return Ready((PodSetUpdate(name="main", **fields),))

    async with CheckTester(controller) as tester:
        verdict = await tester.ask(make_request())
        assert verdict.state == "Pending"
        assert f"podSetUpdates[0].{field}" in verdict.message
        await tester.advance(8)
    assert calls == [0, 1, 3, 7]
    assert {said.state for said in tester.verdicts} == {"Pending"}
