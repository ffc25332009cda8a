"""What if: the runs side by side, and the waits of each job."""

from urllib.parse import quote

CHANGE = "/what-if?set=" + quote("ClusterQueue/serving.spec.preemption.reclaimWithinCohort=Never")


def test_would_mine_have_waited(look):
    """Without reclaiming two jobs would not have been preempted; who took their quota would have waited."""
    look.go(CHANGE)
    table = look.page.get_by_role("region", name="Waits per job")
    row = table.locator("tr", has_text="train-4")
    row.wait_for()
    assert row.locator("del").all_inner_texts() == ["9 min 1 s", "9 min 1 s", "1"]
    assert row.locator("ins").all_inner_texts() == ["0 s", "0 s", "0"]
    assert "played again" in look.page.get_by_text("Struck through").inner_text()
    for theme in ("light", "dark"):
        look.page.emulate_media(color_scheme=theme)
        assert look.violations() == [], theme
    look.page.set_viewport_size({"width": 320, "height": 640})
    assert look.overflow() <= 0


def test_the_waits_are_sorted_and_filtered_by_the_address(look):
    """A click on a title sorts, another one turns it round; a link shows somebody else the same."""
    look.go(CHANGE)
    table = look.page.get_by_role("region", name="Waits per job")
    table.locator("tbody tr").first.wait_for()
    look.page.get_by_role("button", name="Waits in all").click()
    look.page.get_by_role("button", name="Waits in all").click()
    assert table.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    assert "sort=-waited" in look.page.url
    assert "api-rollout" in table.locator("tbody tr").first.inner_text()
    look.page.get_by_label("Job", exact=True).fill("sweep")
    look.page.wait_for_url("**job=sweep**")
    assert table.locator("tbody tr").count() == 2
    look.page.reload()
    table.locator("tbody tr").first.wait_for()
    assert table.locator("tbody tr").count() == 2
    look.page.get_by_label("Job", exact=True).fill("nobody")
    assert "does as recorded" in look.page.get_by_text("No job with nobody").inner_text()
