"""Every page, at the end of the log and in its past, in both themes, wide and narrow."""

import pytest

from .looking import Look

END, PAST = 57, 34
PAGES = {
    "/": "Now",
    "/queues": "Who has what?",
    "/queues/research": "research",
    "/queues/research?series=all": "research",
    "/cohorts/company": "company",
    "/cohorts/company?series=all": "company",
    "/pending": "Who waits, and for what?",
    "/jobs": "Where is my job?",
    "/jobs/default/train-4": "train-4",
    "/jobs/default/train-4/why": "Why is it not running?",
    "/jobs/default/train-4/events": "What happened to it",
    "/jobs/default/train-4/spec": "What was submitted",
    "/preemptions": "Who preempted whom?",
    "/checks": "What do checks hold up?",
    "/budgets": "What is left of budgets?",
    "/kinds": "Which kinds of jobs have teams described?",
    "/what-if": "What if?",
    "/simulate": "Would this be admitted?",
    "/log": "What is being decided?",
    "/log/27": "Message 27",
    "/diff?from=24&to=34": "What has changed?",
    "/system": "Do all services follow?",
}
"""Address -> heading."""


@pytest.mark.parametrize("path", PAGES)
def test_each_page_is_accessible_in_both_themes(look, path):
    """At the end of the log: heading, command, title; and axe has nothing to say."""
    look.go(path)
    assert look.heading() == PAGES[path]
    assert look.page.title() == f"{PAGES[path]} · Sluice"
    assert look.page.locator(".command code").last.inner_text().startswith("sluice ")
    for theme in ("light", "dark"):
        look.page.emulate_media(color_scheme=theme)
        assert look.violations() == [], theme


@pytest.mark.parametrize("path", [path for path in PAGES if "?" not in path])
def test_each_page_has_a_past(look, path):
    """It says as of when; wide and at 320 pixels nothing hangs over the edge, and axe is content."""
    look.go(f"{path}?at={PAST}")
    assert look.page.locator(".past strong").inner_text() == f"As of {PAST}"
    look.page.set_viewport_size({"width": 320, "height": 640})
    assert look.overflow() <= 0
    assert look.violations() == []


def test_what_is_not_there_says_what_is(look):
    """An unknown job is an error with a hint; an unknown address leads to what there is."""
    look.expected.append("404")
    look.go("/jobs/default/train-5")
    assert "train-5" in look.page.locator("[role=alert]").first.inner_text()
    assert look.violations() == []

    look.page.goto(look.address + "/no/such/page")
    look.page.get_by_role("link", name="Quota").last.click()
    look.rendered("/queues", END)


def test_an_empty_list_says_what_to_type(look):
    look.go("/jobs?search=nobody-is-called-this")
    assert "sluice" in look.page.locator(".empty code").inner_text()


def test_two_tabs_share_one_stream(chromium, console):
    """Browsers give a server six connections; with a stream each, the seventh tab would hang."""
    with Look.at(chromium, console.address) as first:
        first.go("/jobs")
        streams: list[str] = []
        second = first.page.context.new_page()
        second.on(
            "request",
            lambda request: streams.extend([request.url] if "/api/v1/stream" in request.url else []),
        )
        second.goto(console.address + "/queues")
        second.wait_for_selector("html[data-rendered-seq]", state="attached")
        second.wait_for_selector(".state.file")
        assert streams == []
