"""Paths of fields lead where kubectl's do, through any value; what cannot be read is said."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.cli.kit.errors import CliError
from sluice.cli.kit.field_paths import steps_of, values_at
from tests.unit.api.mapped.test_rules import JSON

OBJECT: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"kueue.x-k8s.io/queue-name": "q"}},
    "spec": {"groups": [{"name": "one", "size": 1}, {"name": "two"}], "absent": None},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".metadata.name", ["a"]),
        ("metadata.name", ["a"]),
        ("{.metadata.name}", ["a"]),
        (r".metadata.labels.kueue\.x-k8s\.io/queue-name", ["q"]),
        (".metadata.labels['kueue.x-k8s.io/queue-name']", ["q"]),
        (".spec.groups[*].name", ["one", "two"]),
        (".spec.groups[*].size", [1]),
        (".spec.groups[-1].name", ["two"]),
        (".spec.groups[7].name", []),
        (".spec.groups[0].*", ["one", 1]),
        (".spec.absent", []),
        (".spec.groups.name", []),
        ("{.}", [OBJECT]),
        (".spec..name", None),
        (".spec.groups[?(@.size)]", None),
        (".spec.groups[a]", None),
    ],
)
def test_paths_lead_where_kubectls_do(path: str, found: list[Any] | None) -> None:
    """None: it cannot be read here, which is an error and no empty answer."""
    if found is None:
        with pytest.raises(CliError, match="cannot be read"):
            steps_of(path)
    else:
        assert values_at(OBJECT, steps_of(path)) == found


@given(JSON, st.lists(st.sampled_from([".a", ".b", "[0]", "[*]", "['c']"]), max_size=4).map("".join))
def test_no_value_is_an_error(value: Any, path: str) -> None:
    """And no null is found."""
    assert None not in values_at(value, steps_of(path))
