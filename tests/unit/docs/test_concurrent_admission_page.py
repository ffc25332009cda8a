"""What the page on concurrent admission says that `apply` says, it says."""

from sluice.api.validation import validate, validate_update
from tests.support.system import ROOT
from tests.unit.api.whole.test_concurrent_admission import REFUSED, manifest, queue

PAGE = ROOT / "docs" / "concurrent-admission.md"


def said() -> list[str]:
    """Return every message about the mistakes that the tests know."""
    found = [str(error) for spec, _ in REFUSED.values() for error in validate(manifest("ClusterQueue", spec))]
    changed = manifest("ClusterQueue", queue(mode="RetainFirstAdmission"))
    found += [str(error) for error in validate_update(changed, manifest("ClusterQueue", queue()))]
    return found


def test_messages_on_the_page_are_real() -> None:
    """Each row of the table of refusals quotes a message; `…` stands for what is left out."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    rows = [line for line in lines if " value: " in line or "Forbidden: " in line]
    quoted = [row.rpartition("| `")[2].rpartition("` |")[0] for row in rows if "` |" in row]
    assert len(quoted) >= 9
    messages = said()
    for text in quoted:
        parts = [part for part in text.split("…") if part]
        assert any(all(part in message for part in parts) for message in messages), text
