"""Looks at pages as people do, and waits for what they have rendered, never for time."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

AXE = (Path(__file__).parent / "vendor/axe.min.js").read_text()
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PATIENCE_MS = 60_000
"""Far more than a page needs: a machine may be busy."""


class Look:
    """One tab, with what the browser complained of."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.address = page, address
        self.complaints: list[str] = []
        self.expected: list[str] = []
        """Parts of complaints that the test provokes."""
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _hear(self, said: Any) -> None:
        """Note errors, and what a policy has blocked."""
        if said.type in ("error", "warning"):
            self.complaints.append(said.text)

    @classmethod
    @contextmanager
    def at(cls, browser: Any, address: str, **options: Any) -> Iterator["Look"]:
        """Open a tab of its own, and hold the browser to having nothing to complain of."""
        context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 800}, "timezone_id": "UTC", "locale": "en-GB"} | options
        )
        context.set_default_timeout(PATIENCE_MS)
        look = cls(context.new_page(), address)
        yield look
        context.close()
        left = [c for c in look.complaints if not any(part in c for part in look.expected)]
        assert left == []

    def go(self, path: str, seq: int | None = None) -> "Look":
        """Go to an address, and wait until it is rendered, of *seq* if that is given."""
        self.page.goto(self.address + path)
        return self.rendered(path, seq)

    def rendered(self, path: str | None = None, seq: int | None = None, state: str = "") -> "Look":
        where = "[data-rendered-seq]" if seq is None else f'[data-rendered-seq="{seq}"]'
        if path is not None:
            where += f"[data-rendered-path={json.dumps(path)}]"
        if state:
            where += f'[data-rendered-state="{state}"]'
        self.page.wait_for_selector(f"html{where}", state="attached")
        return self

    def press(self, *keys: str) -> "Look":
        for key in keys:
            self.page.keyboard.press(key)
        return self

    def heading(self) -> str:
        return str(self.page.locator("h1").inner_text())

    def violations(self) -> list[str]:
        """Return what axe finds wrong with the page as it is."""
        ask = (
            f"const told = await axe.run(document, {{ runOnly: {json.dumps(RULES)} }});"
            "return told.violations.map(({ id, nodes }) => ({ id, at: nodes.map((n) => String(n.target)) }));"
        )
        # Evaluated by the driver, whom the page's policy does not bind.
        found: list[dict[str, Any]] = self.page.evaluate(f"(async () => {{ {AXE}; {ask} }})()")
        return [f"{one['id']}: {', '.join(one['at'][:3])}" for one in found]

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))
