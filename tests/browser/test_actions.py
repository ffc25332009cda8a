"""Acting in the browser, on a real cell: the effect is shown first, then it is there."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.protocol.query import ApplyRequest
from sluice.sdk import Client
from tests.integration.api.conftest import connected, ready
from tests.support.objects import job_manifest, kueue_object, local_queue, priority_class, resource_group
from tests.support.system import System
from tests.support.waiting import wait_until

from .looking import Look

pytestmark = pytest.mark.nats


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    """A cell with a queue in which one job runs and one waits, and a console that may act."""
    directory: Path = tmp_path_factory.mktemp("acting")
    told = directory / "address"
    with System(directory) as system:
        for name in ("api", "scheduler", "slice_aggregator"):
            system.start(name)
        asyncio.run(filled(system))
        with Client(system.url, system.cell) as client:
            client.submit(job_manifest("holds", queue="narrow"))
            client.submit(job_manifest("waits", queue="narrow"))
            client.submit(job_manifest("drained", queue="wide"))
        environment = {"CONSOLE_PORT": "0", "CONSOLE_ACTIONS": "1", "CONSOLE_ADDRESS_FILE": str(told)}
        system.start("console", environment)
        # Behind the event loop of `filled`: the browser's driver runs one of its own.
        request.getfixturevalue("chromium")
        wait_until(told.is_file)
        yield told.read_text().rstrip("/")


async def filled(system: System) -> None:
    await ready(system, replicas=1)
    spec = {"resourceGroups": [resource_group({"plain": 1})], "namespaceSelector": {}}
    objects = [
        kueue_object("ResourceFlavor", "plain"),
        priority_class("high", 1000),
        kueue_object("ClusterQueue", "narrow", spec),
        local_queue("narrow", "narrow"),
        kueue_object("ClusterQueue", "wide", spec),
        local_queue("wide", "wide"),
    ]
    async with connected(system) as api:
        await api.apply(ApplyRequest(objects=objects))


def test_a_queue_gets_quota(address, chromium):
    """What would follow is shown, with its command; then it has followed, and the page has it."""
    with Look.at(chromium, address) as look:
        look.page.goto(f"{address}/queues/narrow")
        look.page.get_by_role("button", name="Quota for cpu of plain").click()
        dialog = look.page.get_by_role("dialog")
        dialog.get_by_label("Nominal quota").fill("2")
        look.press("Enter")
        dialog.get_by_role("cell", name="default/waits").wait_for()
        assert "sluice apply -f -" in dialog.locator(".command code").inner_text()
        for theme in ("light", "dark"):
            look.page.emulate_media(color_scheme=theme)
            assert look.violations() == [], theme
        dialog.get_by_role("button", name="Quota for cpu of plain").click()
        dialog.get_by_text("It is said: message").wait_for()
        dialog.get_by_text("Admitted").first.wait_for()
        assert look.violations() == []
        dialog.get_by_role("button", name="Close").click()
        look.page.get_by_text("2 of 2 cpu").wait_for()


def test_a_job_is_put_off_by_keyboard(address, chromium):
    """A dialog that is left changes nothing; one that is gone through does."""
    with Look.at(chromium, address) as look:
        look.page.goto(f"{address}/jobs/default/holds")
        put_off = look.page.get_by_role("button", name="Deactivate …")
        put_off.focus()
        look.press("Enter")
        look.page.get_by_role("dialog").wait_for()
        look.press("Escape")
        look.page.get_by_role("dialog").wait_for(state="detached")
        put_off.focus()
        look.press("Enter")
        look.page.get_by_label("Why (for people)").press("Enter")
        look.page.get_by_text("keeps out of its queue").wait_for()
        look.page.get_by_role("button", name="Deactivate", exact=True).press("Enter")
        look.page.get_by_text("It is said: message").wait_for()
        look.press("Escape")
        look.page.get_by_role("button", name="Activate …").wait_for()


def test_a_local_queue_is_stopped_and_goes_on(address, chromium):
    """Draining shows whom it would evict, with the command; then it is so, and Resume lets them in again."""
    with Look.at(chromium, address) as look:
        look.page.goto(f"{address}/queues/wide")
        row = look.page.get_by_role("region", name="Local queues").locator("tbody tr")
        row.get_by_role("button", name="Stop default/wide").click()
        dialog = look.page.get_by_role("dialog")
        dialog.get_by_label("Who has quota").select_option("HoldAndDrain")
        look.page.get_by_role("button", name="What would it do?").click()
        dialog.get_by_text("LocalQueue wide admits nobody more; who runs is evicted.").wait_for()
        dialog.get_by_role("cell", name="default/drained").wait_for()
        assert "stopPolicy: HoldAndDrain" in dialog.locator(".command code").inner_text()
        assert "kind: LocalQueue" in dialog.locator(".command code").inner_text()
        assert look.violations() == []
        dialog.get_by_role("button", name="Stop default/wide").click()
        dialog.get_by_text("It is said: message").wait_for()
        dialog.get_by_text("Evicted").first.wait_for()
        dialog.get_by_role("button", name="Close").click()
        row.get_by_text("stopped (HoldAndDrain)").wait_for()
        assert look.violations() == []
        row.get_by_role("button", name="Resume default/wide").click()
        dialog.get_by_text("LocalQueue wide admits again.").wait_for()
        dialog.get_by_role("button", name="Resume default/wide").click()
        dialog.get_by_text("It is said: message").wait_for()
        dialog.get_by_role("button", name="Close").click()
        row.get_by_text("admits", exact=True).wait_for()


def test_the_past_cannot_be_changed(address, chromium):
    with Look.at(chromium, address) as look:
        look.page.goto(f"{address}/queues/narrow")
        look.page.get_by_role("button", name="Stop …").wait_for()
        seq = look.page.evaluate(
            "fetch('/api/v1/queues').then((said) => said.json()).then((said) => said.upto)"
        )
        look.go(f"/queues/narrow?at={seq}", seq)
        assert look.page.get_by_role("button", name="Stop …").count() == 0
