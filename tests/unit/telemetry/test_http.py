"""Pages over HTTP."""

from collections.abc import Iterator

import aiohttp
import pytest
from prometheus_client.metrics_core import HistogramMetricFamily, Metric
from prometheus_client.samples import Exemplar

from sluice.telemetry.http import Page, Scrape, serving


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


class Numbers:
    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily("took", "How long it took")
        family.add_metric([], [("1", 1, Exemplar({"sequence": "7"}, 0.5)), ("+Inf", 1)], 0.5)
        yield family


async def scrape() -> Scrape:
    return Scrape(Numbers())


@pytest.mark.parametrize(
    ("accept", "kind", "exemplar"),
    [
        ("", "text/plain", False),
        ("*/*", "text/plain", False),
        ("text/plain;version=0.0.4", "text/plain", False),
        ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", "application/openmetrics-text", True),
        ("application/openmetrics-text;version=1.0.0;escaping=dots", "application/openmetrics-text", True),
        ("application/openmetrics-text;version=abc", "text/plain", False),
        ("text/plain;version=x.y;escaping=", "text/plain", False),
        (";;;,,,", "text/plain", False),
    ],
)
async def test_numbers_are_told_in_the_format_that_is_asked_for(
    accept: str, kind: str, exemplar: bool
) -> None:
    async with serving("127.0.0.1:0", "X", {"/m": scrape}) as port, aiohttp.ClientSession() as session:
        headers = {"Accept": accept} if accept else {}
        async with session.get(f"http://127.0.0.1:{port}/m", headers=headers) as answer:
            said = await answer.text()
    assert answer.content_type == kind
    assert 'took_bucket{le="1"} 1.0' in said
    assert ('# {sequence="7"} 0.5' in said) is exemplar
    assert said.endswith("# EOF\n") is exemplar


async def test_no_address_serves_nothing_and_a_wrong_one_is_named() -> None:
    async with serving("", "X", {}) as port:
        assert port == 0
    with pytest.raises(ValueError, match="X='host': expected host:port"):
        async with serving("host", "X", {}):
            pass
