"""One deadline for each key, whatever was said before."""

from hypothesis import given
from hypothesis import strategies as st

from sluice.core.deadlines import Deadlines

KEYS = st.sampled_from("abcde")
MOMENTS = st.one_of(st.none(), st.integers(0, 9))


@given(st.lists(st.tuples(KEYS, MOMENTS), max_size=300), st.integers(-1, 10))
def test_it_is_a_dictionary_that_knows_its_least_values(words: list[tuple[str, int | None]], at: int) -> None:
    deadlines, plain = Deadlines[str](), dict[str, int]()
    for key, moment in words:
        deadlines.set(key, moment)
        if moment is None:
            plain.pop(key, None)
        else:
            plain[key] = moment

    assert deadlines.of == plain
    assert deadlines.next == min(plain.values(), default=None)
    due = deadlines.due(at)
    assert [(plain[key], key) for key in due] == sorted((m, key) for key, m in plain.items() if m <= at)
    assert deadlines.due(at) == due, "they keep it until it is set anew"
    assert deadlines.next == min(plain.values(), default=None)


def test_what_is_out_of_date_does_not_pile_up() -> None:
    """A deadline that moves on with every event costs no memory."""
    deadlines = Deadlines[str]()
    for moment in range(10_000):
        deadlines.set("a", moment)
    assert len(deadlines._heap) < 100
