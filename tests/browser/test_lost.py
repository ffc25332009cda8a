"""A server that goes away and comes back: pages say how old they are, and go on by themselves."""

from .conftest import INCIDENT, Console
from .looking import Look


def test_the_console_is_killed_and_back(chromium):
    """What was there stays, with its age; a page asked for meanwhile loads when it can."""
    console = Console(INCIDENT)
    with Look.at(chromium, console.address) as look:
        look.expected += [
            "Failed to load resource",
            "ERR_CONNECTION_REFUSED",
            "ERR_INCOMPLETE_CHUNKED",
            "net::",
        ]
        look.go("/queues", 57)
        look.page.wait_for_selector(".state.file")
        console.process.kill()
        console.process.communicate()
        look.page.wait_for_selector(".state.lost")
        assert "as of 57" in look.page.locator(".state.lost").inner_text()
        assert "16 cpu" in look.page.locator("main").inner_text()

        look.page.get_by_role("link", name="research").click()
        look.page.wait_for_selector("[role=alert]")
        again = Console(INCIDENT, console.port)
        look.page.wait_for_selector(".state.file")
        look.rendered("/queues/research", 57)
        again.end()
