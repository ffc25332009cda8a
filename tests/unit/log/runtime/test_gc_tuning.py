"""The collector pauses while a state is made, and finds what was dropped all the same."""

import gc
import weakref

import pytest

from sluice.log.runtime import gc_tuning


class _Knot:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _as_before():
    yield
    gc_tuning.look_through()
    gc.enable()


def rebuild_in_vain() -> None:
    with gc_tuning.put_off():
        assert not gc.isenabled()
        with gc_tuning.put_off():
            pass
        assert not gc.isenabled()
        raise KeyError


def test_it_pauses_and_goes_on():
    """Also when rebuilding fails, and when two overlap."""
    with pytest.raises(KeyError):
        rebuild_in_vain()
    assert gc.isenabled()


def test_what_was_made_is_left_alone_until_it_is_dropped():
    """A later collection does not walk it; looking through everything finds it."""
    with gc_tuning.put_off():
        knot = _Knot()
    alive = weakref.ref(knot)
    del knot
    gc.collect()
    assert alive() is not None

    gc_tuning.look_through()
    assert alive() is None
