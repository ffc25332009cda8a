"""The collector of cycles while states are folded."""

import gc

from sluice.log.runtime import gc_tuning
from sluice.replay.source.time_travel import unhurried


def test_what_was_made_meanwhile_is_not_looked_through_at_once():
    """It counts as old: a quick collection leaves it alone, a full one still finds its cycles."""
    # Another test of this process may have left something out for good.
    gc_tuning.look_through()
    with unhurried():
        assert not gc.isenabled()
        made: list[object] = [[n] for n in range(1_000)]
        made.append(made)

    assert gc.isenabled()
    assert not any(each is made for each in gc.get_objects(generation=0))
    assert any(each is made for each in gc.get_objects(generation=2))


def test_what_was_left_out_of_collections_stays_out():
    """A process that froze its own state finds it as it was."""
    with gc_tuning.put_off():
        own: list[object] = [[]]
    try:
        with unhurried():
            pass
        assert not any(each is own for each in gc.get_objects())
    finally:
        gc_tuning.look_through()
    assert any(each is own for each in gc.get_objects())
