"""Every recorded case decides as the reference implementation did, or is left out by name with a reason."""

import pytest

from .framework import (
    Adapter,
    Case,
    Failed,
    LeftOut,
    adapter_of,
    adapters,
    compare,
    directory,
    outcome,
    suites,
)

ADAPTERS = adapters()


def _parameters() -> list[object]:
    folder = directory()
    if not folder.is_dir():
        reason = f"{folder} is not there: set SLUICE_CONFORMANCE_DIR to the folder with the cases"
        return [pytest.param(None, None, id="no cases", marks=pytest.mark.skip(reason=reason))]
    return [
        pytest.param(case, adapter_of(suite.name, ADAPTERS), id=f"{suite.name}/{case.name}")
        for suite in suites(folder)
        for case in suite.cases
    ]


@pytest.mark.parametrize(("case", "adapter"), _parameters())
def test_case(case: Case, adapter: Adapter | None) -> None:
    """What users can see of the decision equals what was recorded."""
    result = outcome(case, adapter)
    match result:
        case LeftOut(reason):
            pytest.skip(reason)
        case Failed(message):
            pytest.fail(message, pytrace=False)
        case _:
            pass


def test_compare_names_the_first_difference() -> None:
    """A failing case says where it differs, with both values."""
    with pytest.raises(AssertionError, match=r"a\[1\]\.b: expected 1, got 2"):
        compare({"a": [0, {"b": 2}]}, {"a": [0, {"b": 1}]})
