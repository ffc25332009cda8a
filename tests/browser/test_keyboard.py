"""A whole incident without a mouse: who stopped train-4, why does it wait, and what would let it start?"""


def test_an_incident_by_keyboard_only(look):
    """From Now to the preemption, to the job, to why, to a change tried on a copy."""
    look.go("/", 57)
    look.press(",").rendered("/?at=27", 27)  # the last preemption
    look.press("g", "x").rendered("/preemptions?at=27", 27)
    look.press("j", "Tab", "Tab", "Enter")  # its row: message, preemptor, victim
    look.rendered("/jobs/default/train-3?at=27", 27)
    look.press("}").rendered("/jobs/default/train-3?at=28", 28)  # the next decision about it: it must stop
    look.press("Control+k")
    look.page.keyboard.type("34")
    look.page.locator("[role=option]", has_text="This page at 34").wait_for()
    look.press("ArrowDown", "Enter").rendered("/jobs/default/train-3?at=34", 34)
    look.press("w").rendered("/jobs/default/train-3/why?at=34", 34)
    assert "What would admit it" in look.page.locator("main").inner_text()
    tried = look.page.get_by_role("link", name="Try it").first
    tried.focus()
    look.press("Enter").rendered()
    look.page.wait_for_selector("text=Side by side")
    assert "set=" in look.page.url


def test_filter_rows_and_palette(look):
    """`/` to the filter, `j` into the rows, Enter opens; Ctrl-K finds anything."""
    look.go("/jobs", 57)
    look.press("/")
    look.page.keyboard.type("train-2")
    look.rendered("/jobs?search=train-2", 57)
    look.press("Escape", "j", "Enter").rendered("/jobs/default/train-2", 57)
    look.press("Control+k")
    look.page.keyboard.type("serv")
    look.page.locator("[role=option]", has_text="serving").first.wait_for()
    look.press("Enter").rendered("/queues/serving", 57)


def test_what_is_typed_right_after_a_key_is_lost_nowhere(look):
    """A dialog is open, and has the focus, before the browser can paint or hear another key."""
    look.go("/", 57)
    focused = look.page.evaluate(
        "async () => {"
        "document.dispatchEvent(new KeyboardEvent('keydown', { key: 'k', ctrlKey: true }));"
        "for (let n = 0; n < 10; n += 1) await Promise.resolve();"  # tasks of this turn, no frame
        "return document.activeElement.getAttribute('role'); }"
    )
    assert focused == "combobox"


def test_help_shows_the_keys_and_switches_letters_off(look):
    """Single letters can be switched off (WCAG 2.1.4); then they do nothing."""
    look.go("/", 57)
    look.press("?")
    assert look.page.get_by_role("dialog").is_visible()
    assert look.violations() == []
    look.page.get_by_label("Single letters are keys").uncheck()
    look.press("Escape", "g", "q")
    look.page.get_by_role("link", name="Jobs", exact=True).click()
    look.rendered("/jobs", 57)


def test_the_skip_link_is_the_first_stop(look):
    look.go("/queues", 57)
    look.press("Tab")
    assert look.page.evaluate("document.activeElement.className") == "skip"
    look.press("Enter")
    assert look.page.evaluate("document.activeElement.id") == "main"
