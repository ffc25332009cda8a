"""Tables line up, whatever is in them."""

from hypothesis import given
from hypothesis import strategies as st

from sluice.cli.kit.table import Column, aligned, bar, one_line, render, width

COLUMNS = [
    Column[dict]("NAME", lambda row: row["name"]),
    Column[dict]("N", lambda row: str(row["n"]), right=True),
    Column[dict]("WHY", lambda row: row.get("why", ""), wide=True),
]


def test_columns_are_as_wide_as_their_widest_cell():
    """Three blanks between columns, numbers to the right, no blanks at the end of a line."""
    lines = render([{"name": "a", "n": 1}, {"name": "longer", "n": 1000}], COLUMNS)

    assert lines == ["NAME        N", "a           1", "longer   1000"]


def test_wide_columns_only_when_asked():
    """`-o wide` adds columns and changes no other."""
    rows = [{"name": "a", "n": 1, "why": "because"}]

    assert render(rows, COLUMNS) == ["NAME   N", "a      1"]
    assert render(rows, COLUMNS, wide=True) == ["NAME   N   WHY", "a      1   because"]


def test_text_cannot_break_the_table():
    """Line breaks and escapes of a message stay inside its cell."""
    lines = render([{"name": "a\nb\x1b[31m", "n": 1}], COLUMNS, header=False)

    assert lines == ["a b [31m   1"]


@given(st.lists(st.text(max_size=12), min_size=1, max_size=5))
def test_every_line_has_its_columns_at_the_same_place(names):
    """Also with wide characters."""
    lines = render([{"name": name, "n": 7} for name in names], COLUMNS)
    ends = {width(line) for line in lines}

    assert len(ends) == 1


def test_long_text_is_cut_with_a_mark():
    """A cut shows."""
    assert one_line("abcdefgh", 5) == "abcd…"
    assert one_line("abc", 5) == "abc"


def test_bars_show_own_borrowed_and_free():
    """The whole bar stands for the larger of nominal and use."""
    assert bar(2, 4, cells=8) == "████░░░░"
    assert bar(6, 4, cells=6) == "████▓▓"
    assert bar(0, 0, cells=4) == "····"


@given(st.integers(0, 10**15), st.integers(0, 10**15), st.integers(1, 40))
def test_bars_are_never_longer_than_they_should(used, nominal, cells):
    """Rounding adds no cell."""
    assert len(bar(used, nominal, cells=cells)) <= cells


def test_rows_of_text_are_aligned_by_what_the_terminal_shows() -> None:
    """Titles are rows like the others; wide characters count twice; nothing trails."""
    assert aligned([("NAME", "N"), ("日本", "7"), ("a", "10")], right=(1,)) == [
        "NAME    N",
        "日本    7",
        "a      10",
    ]
    assert aligned([]) == []
