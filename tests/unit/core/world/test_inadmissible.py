"""What is said of flavors that a variant was not made for."""

import pytest

from sluice.core.world.inadmissible import without_other_flavors

SKIPPED = "skipping flavor {} due to WorkloadAllowedResourceFlavorAnnotation annotation"


@pytest.mark.parametrize(
    ("details", "left"),
    [
        ("flavor b doesn't match node affinity", "flavor b doesn't match node affinity"),
        (
            f"{SKIPPED.format('a')}, flavor b doesn't match node affinity",
            "flavor b doesn't match node affinity",
        ),
        (
            f"{SKIPPED.format('a')}, {SKIPPED.format('c')}",
            "it may use none of the flavors of a resource that it asks for",
        ),
    ],
)
def test_a_message_never_ends_without_a_reason(details: str, left: str) -> None:
    """Flavors of other variants are left out; where there were no others, that is the reason."""
    said = "couldn't assign flavors to pod set main: "
    assert without_other_flavors(said + details) == said + left
