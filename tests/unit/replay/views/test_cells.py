"""A job in other cells, as people read it."""

from sluice.replay.views.cells import notes_of
from tests.support.cells_world import CellsWorld


def test_a_line_names_cell_state_and_time() -> None:
    """Of what runs, and of growth that waits; a cell that is out of reach is said to be."""
    world = CellsWorld()
    world.ladder("near", lostAfterSeconds=60).turn()
    key = world.create()
    world.reserve(key).exchange()
    (note,) = notes_of(world.state, key)
    assert note.words.startswith("near: runs there since ")
    assert note.words.endswith("1 x main")
    world.scale(key, 3)
    growth = world.growth_of(key)
    assert growth is not None
    world.reserve(growth).exchange()
    world.cut(world.workers["near"])
    world.turn()
    (note,) = notes_of(world.state, growth)
    assert note.words.startswith("near: the growth waits there for room since ")
    assert "insufficient unused quota (the cell is out of reach since " in note.words
