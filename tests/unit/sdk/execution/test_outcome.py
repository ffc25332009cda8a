"""What is reported of an attempt's end is what the cell takes."""

from sluice.core.workload.inputs import MAX_BYTES
from sluice.events.codec import encode_message
from sluice.sdk.execution._outcome import CODES_MOST, Outcome, finished


def test_a_report_is_never_too_large() -> None:
    """Or it would be refused, and the job be without an end: its claim says that the attempt is over."""
    codes = {f"{'p' * 240}-{n}": 1 for n in range(100_000)}
    outcome = Outcome(success=False, message="\N{SNOWMAN}" * 2_000_000, exit_codes=codes)

    data = finished(outcome, "u", 1, "e0")
    payload = encode_message(
        message_id="m", source="executor/e0", event_type="JobFinished", subject="default/j", at=0, data=data
    )

    assert len(payload) < MAX_BYTES
    assert data.message.startswith("\N{SNOWMAN}" * 1000)
    assert data.message.endswith("(2000000 characters)")
    assert len(data.exit_codes) == CODES_MOST


def test_what_is_small_is_reported_as_it_is() -> None:
    data = finished(Outcome(success=False, message="exit code 3", exit_codes={"j-0": 3}), "u", 1, "e0")

    assert (data.message, data.exit_codes) == ("exit code 3", {"j-0": 3})
