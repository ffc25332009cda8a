"""Kinds that Sluice does not take: what to do instead is said of those that users of Kueue have."""

import pytest

from sluice.api.decode import DecodeError, decode_object, find_kind
from sluice.api.scheme import BY_GVK
from sluice.api.unsupported import INSTEAD, is_unsupported


def test_what_there_is_has_no_substitute() -> None:
    groups = {(version.rpartition("/")[0], kind) for version, kind in BY_GVK}
    assert not groups & INSTEAD.keys()


@pytest.mark.parametrize(("group", "kind"), [*INSTEAD], ids=lambda word: word or "core")
def test_the_refusal_says_what_to_do_instead(group: str, kind: str) -> None:
    """Also where kinds of teams are taken, one of which it could be by its group."""
    manifest = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, "metadata": {"name": "a"}}
    for custom in (False, True):
        with pytest.raises(DecodeError) as found:
            find_kind(manifest, custom=custom)
        (error,) = found.value.errors
        assert is_unsupported(error)
        assert error.detail == INSTEAD[group, kind]


def test_another_error_of_a_kind_is_none_of_support() -> None:
    with pytest.raises(DecodeError) as found:
        decode_object({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "spec": {"foo": 1}})
    assert not any(map(is_unsupported, found.value.errors))
