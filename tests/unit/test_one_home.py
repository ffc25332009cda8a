"""Reasons and feature gates are named by the constants of their home, not by their text."""

import re
from types import ModuleType

import pytest

from sluice.api import features
from sluice.core.workload import pending_reasons, reasons
from tests.unit.structure import ROOT, Code

HOMES = (features, reasons, pending_reasons)

OTHER_THINGS = {
    "AdmissionCheck",  # a kind
    "FlavorFungibility",  # a struct
    "Preempted",  # an event, a condition
    "Suspended",  # a state of a dispatch entry
    "Deactivated",  # a phase, an event of Kubernetes
    "JobDeleted",  # a message
}
"""Texts that are names of something else, too."""

BELOW = {"libs/sluice/events"}
"""Packages on floors below the reasons' home; what is in the log there is a text."""


def _texts(module: ModuleType) -> dict[str, str]:
    return {
        value: name
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str) and value.isalnum()
    }


@pytest.mark.parametrize("home", HOMES, ids=lambda home: home.__name__)
def test_no_text_of_a_reason_or_a_gate_stands_outside_its_home(home: ModuleType) -> None:
    names = {text: name for text, name in _texts(home).items() if text not in OTHER_THINGS}
    assert names
    homes = {str(module.__file__) for module in HOMES}
    found = [
        f"{path}: {names[text]}"
        for file in Code().files.values()
        for path in (str(file.relative_to(ROOT)),)
        if not path.startswith(tuple(BELOW)) and str(file) not in homes
        for text in re.findall(r'"(\w+)"', file.read_text())
        if text in names
    ]
    assert found == []
