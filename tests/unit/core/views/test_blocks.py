"""Pieces in compressed blocks."""

from sluice.core.views import blocks
from sluice.core.views.blocks import Blocks

PIECES = [f"piece {number} of many that resemble each other".encode() * 3 for number in range(blocks.SIZE)]


def test_pieces_are_found_by_their_numbers():
    """Whatever other blocks are opened in between."""
    found = Blocks()
    numbers = [number for _ in range(20) for number in found.add(PIECES)]
    assert len({*numbers}) == 20 * blocks.SIZE
    assert [found.piece(number) for number in numbers[::-7]] == [(PIECES * 20)[n] for n in numbers[::-7]]
    assert sum(map(len, found.stored.values())) < sum(map(len, PIECES)) * 20 / 8
    assert found.piece(numbers[-1] + 1) is None


def test_a_block_goes_with_its_last_piece():
    """Before that it says that little is left; what is read again from a snapshot goes on so."""
    found = Blocks()
    numbers = [*found.add(PIECES), *found.add(PIECES)]
    for number in numbers[: blocks.SIZE - 1]:
        found.take(number)
    assert [*found.sparse] == [0]
    again = Blocks(found.kept())
    assert [*again.sparse] == [0]
    again.take(numbers[blocks.SIZE - 1])
    assert not again.sparse
    assert [*again.stored] == [*again.left] == [1]
    assert again.add(PIECES)[0] == 2 * blocks.SIZE, "a number is never given twice"
