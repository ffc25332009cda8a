"""Pages over HTTP."""

import aiohttp
import pytest

from sluice.telemetry.http import Page, serving


async def page() -> Page:
    return Page(b"{}", status=503)


async def test_pages_are_served_by_path_and_for_get_only() -> None:
    async with serving("127.0.0.1:0", "X", {"/a": page}) as port, aiohttp.ClientSession() as session:
        root = f"http://127.0.0.1:{port}"
        async with session.get(f"{root}/a?b=c") as answer:
            assert (answer.status, answer.content_type) == (503, "application/json")
            assert await answer.read() == b"{}"
        async with session.post(f"{root}/a") as answer:
            assert answer.status == 405
        async with session.get(root) as answer:
            assert answer.status == 404


async def test_no_address_serves_nothing_and_a_wrong_one_is_named() -> None:
    async with serving("", "X", {}) as port:
        assert port == 0
    with pytest.raises(ValueError, match="X='host': expected host:port"):
        async with serving("host", "X", {}):
            pass
