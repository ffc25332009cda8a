"""A ranked list against the plainest one there is."""

from hypothesis import given
from hypothesis import strategies as st

from sluice.core.queueing import sorted_map
from sluice.core.queueing.sorted_map import SortedMap

RANKS = st.tuples(st.integers(0, 3), st.integers(0, 5), st.sampled_from("abc"))


@given(st.lists(st.tuples(st.sampled_from(("add", "discard", "move")), RANKS, RANKS), max_size=200))
def test_it_is_a_sorted_list(changes):
    """Whatever was added, moved and taken out: what is left is in the order of ranks, in small chunks."""
    before, sorted_map.CHUNK = sorted_map.CHUNK, 2
    try:
        listed: SortedMap[str] = SortedMap()
        model: dict[tuple[int, int, str], str] = {}
        for change, rank, other in changes:
            if change == "add":
                model[rank] = "".join(map(str, rank))
                listed.add(rank, model[rank])
            elif change == "move":
                if rank in model and (other not in model or other == rank):
                    item = model.pop(rank)
                    model[other] = item
                    listed.move(rank, other, item)
            elif rank in model:
                listed.discard(rank, model.pop(rank))
            else:
                listed.discard(rank, "nothing")

            assert list(listed.ranks()) == sorted(model)
            assert list(listed) == [model[each] for each in sorted(model)]
            assert listed.listed() == list(listed)
            assert len(listed) == len(model)
            assert listed.first() == (model[min(model)] if model else None)
            assert all(0 < len(chunk) <= 4 for chunk in listed._chunks)
    finally:
        sorted_map.CHUNK = before


def test_only_the_same_item_is_taken_out():
    """Another item under the rank stays: what is discarded was replaced meanwhile."""
    old, new = ["old"], ["new"]
    listed: SortedMap[list[str]] = SortedMap()
    listed.add((0, 0, "a"), old)
    listed.add((0, 0, "a"), new)

    listed.discard((0, 0, "a"), old)

    assert list(listed) == [new]
    assert listed[0, 0, "a"] is new
