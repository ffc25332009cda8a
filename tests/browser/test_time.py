"""Time: the strip and its keys lead to a moment, and pages show the cell as it was."""

import pytest
from click.testing import CliRunner
from msgspec import json

from sluice.cli.commands.replay.state import state

from .conftest import INCIDENT


def _told(seq):
    said = CliRunner().invoke(state, ["--at", str(seq), "-l", str(INCIDENT), "-o", "json"])
    assert said.exit_code == 0, said.output
    return json.decode(said.output)


@pytest.mark.parametrize("seq", [12, 24, 27, 34, 50])
def test_what_quota_shows_is_what_replay_state_prints(look, seq):
    """Used, pending and admitted of each queue, as of that message."""
    look.go(f"/queues?at={seq}", seq)
    told = _told(seq)["clusterQueues"]
    for name, queue in told.items():
        row = look.page.locator(f'tr[data-key="{name}"]')
        quota = queue["quota"]["on-demand/cpu"]
        assert f"{quota['used']} of {quota['nominal']} cpu" in row.inner_text()
        numbers = row.locator("td.number").all_inner_texts()
        assert numbers[:2] == [str(queue["pending"]), str(queue["admitted"])]


def test_keys_go_through_the_log_and_back(look):
    """`[` and `]` by message, `,` to the preemption before, `t` to the end; the address follows."""
    look.go("/queues", 57)
    look.press("[").rendered("/queues?at=56", 56)
    look.press("[").rendered("/queues?at=55", 55)
    look.press("]").rendered("/queues?at=56", 56)
    look.press(",").rendered("/queues?at=27", 27)
    look.press("t").rendered("/queues", 57)
    look.page.go_back()
    look.rendered("/queues?at=27", 27)


def test_the_strip_is_a_slider(look):
    """Arrows move by a message, Home to the first; what is there is said."""
    look.go("/", 57)
    strip = look.page.get_by_role("slider", name="Moment of the log")
    strip.focus()
    look.press("ArrowLeft").rendered("/?at=56", 56)
    assert strip.get_attribute("aria-valuenow") == "56"
    assert "message 56" in strip.get_attribute("aria-valuetext")
    look.press("Home").rendered("/?at=1", 1)
    look.press("End").rendered("/", 57)


def test_dragging_the_strip_loads_where_it_is_let_go(look):
    look.go("/queues", 57)
    box = look.page.get_by_role("slider").bounding_box()
    y = box["y"] + box["height"] / 2
    look.page.mouse.move(box["x"] + box["width"] - 2, y)
    look.page.mouse.down()
    look.page.mouse.move(box["x"] + box["width"] * 0.75, y)
    look.page.mouse.move(box["x"] + box["width"] / 2, y)
    look.page.mouse.up()
    look.rendered(None, 29)
    assert look.page.url.endswith("/queues?at=29")


def test_links_keep_the_moment(look):
    look.go("/queues?at=34", 34)
    look.page.get_by_role("link", name="research").click()
    look.rendered("/queues/research?at=34", 34)
