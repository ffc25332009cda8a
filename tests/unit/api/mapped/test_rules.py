"""Paths lead where they say, through any value; descriptions of kinds are checked."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sluice.api.mapped.rules import Mapping, PodSetRule, check_mapping, find, put, without
from sluice.api.mapped.table import KINDS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)
PATHS = st.lists(st.sampled_from(["a", "b", "a[0]", "b[1][0]", "c"]), min_size=1, max_size=3).map(".".join)


@given(JSON, PATHS)
def test_what_is_not_there_is_none(value: Any, path: str) -> None:
    """No value and no path is an error; what was taken away is not found any more."""
    find(value, path)
    if "[" not in path:
        assert find(without(value, path), path) is None


@given(st.dictionaries(st.sampled_from("abc"), JSON, max_size=3), PATHS, JSON)
def test_what_was_put_somewhere_is_found_there(value: dict[str, Any], path: str, new: Any) -> None:
    """And nothing else is touched."""
    if "[" not in path:
        changed = put(value, path, new)
        assert find(changed, path) == new
        top = path.partition(".")[0]
        assert {k: v for k, v in changed.items() if k != top} == {k: v for k, v in value.items() if k != top}


def test_items_of_lists_are_numbered() -> None:
    assert find({"a": {"b": [{"c": 1}, {"c": 2}]}}, "a.b[1].c") == 2


def test_the_table_is_as_teams_kinds_must_be() -> None:
    for kind in KINDS:
        if not kind.pods:
            assert list(check_mapping("spec", kind.mapping)) == [], kind.kind


def test_wrong_descriptions_are_refused() -> None:
    mapping = Mapping(
        pod_sets=[
            PodSetRule(template="spec..x"),
            PodSetRule(name="a", name_from="b", resources="spec.x", template="spec.y"),
        ],
        suspend=["metadata.x"],
        ttl="spec.other",
    )
    assert [error.field for error in check_mapping("spec", mapping)] == [
        "spec.podSets[0].name",
        "spec.podSets[0].template",
        "spec.podSets[1].name",
        "spec.podSets[1].template",
        "spec.podSets[1].nameFrom",
        "spec.ttl",
        "spec.suspend[0]",
    ]
    assert [error.field for error in check_mapping("spec", Mapping())] == ["spec.podSets"]
