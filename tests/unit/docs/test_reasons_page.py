"""What G8 in docs/rules.md lists is what `core.workload.reasons` has."""

import re
from pathlib import Path

from sluice.core.workload import reasons

from .pages import ROOT

RULES = (ROOT / "docs" / "rules.md").read_text()


def _constants() -> dict[str, set[str]]:
    """Comment above a group of reasons -> their texts; those of evictions come first, without one."""
    groups: dict[str, set[str]] = {}
    group = ""
    for line in Path(reasons.__file__).read_text().splitlines():
        if line.startswith("# "):
            group = line.removeprefix("# ")
        elif match := re.fullmatch(r'[A-Z_]+: Final = "(\w+)"', line):
            groups.setdefault(group, set()).add(match[1])
    return groups


def test_reasons_for_eviction_and_their_causes_are_those_of_the_code() -> None:
    section = re.search(r"### G8 .*?\n\n(.*?)\n\n", RULES, re.DOTALL)
    assert section is not None
    evictions, _, rest = section[1].partition(". Underlying causes of ")
    causes, _, _ = rest.partition(". ")
    of_deactivation, _, of_pods = causes.partition("; of PodsReadyTimeout: ")
    found = _constants()
    assert set(re.split(r",\s+", evictions)) == found[""]
    assert (
        set(re.split(r",\s+", of_deactivation.removeprefix("Deactivated: ")))
        == found["Causes of a deactivation."]
    )
    assert set(re.split(r",\s+", of_pods)) == found["Causes of a PodsReadyTimeout."]
