"""What the documentation says of settings, events and links is so."""

import re
from pathlib import Path

import msgspec
import pytest

from sluice.api import features, kueue
from sluice.api.features import DEFAULTS
from sluice.events import job
from sluice.log.runtime.config import CellConfig
from sluice.services.agent.config import Config as AgentConfig
from sluice.services.api.config import Config as ApiConfig
from sluice.services.check_budget.config import Config as BudgetConfig
from sluice.services.check_provisioning.config import Config as ProvisioningConfig
from sluice.services.check_webhook.config import Config as WebhookConfig
from sluice.services.common.decider import Nothing, Watching
from sluice.services.console.config import Config as ConsoleConfig

from .pages import PAGES, ROOT, blocks, name, prose

DOCS = ROOT / "docs"
CONFIGURATION = (DOCS / "configuration.md").read_text()
EVERYTHING = "\n".join(path.read_text() for path in PAGES)


def anchor(heading: str) -> str:
    """Return a heading's anchor, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    """Every relative link names a file that is there, and a heading of it."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path.read_text())):
        if "://" in target or target.startswith("mailto:"):
            continue
        file, _, fragment = target.partition("#")
        found = (path.parent / file).resolve() if file else path
        assert found.exists(), f"{name(path)}: {target}"
        if fragment:
            headings = re.findall(r"(?m)^#+ (.*)$", found.read_text())
            assert fragment in {anchor(heading) for heading in headings}, f"{name(path)}: {target}"


def test_variables_of_all_services_are_described() -> None:
    """Every SLUICE_* setting of a cell is in the table, with its default, and no other."""
    for field in msgspec.structs.fields(CellConfig):
        variable = f"SLUICE_{field.name.upper()}"
        row = next((r for r in CONFIGURATION.splitlines() if r.startswith("|") and variable in r), "")
        assert row, variable
        if isinstance(field.default, int | float) or field.default:
            assert f"{field.default:g}" if isinstance(field.default, float) else str(field.default) in row


@pytest.mark.parametrize(
    ("prefix", "config", "page"),
    [
        ("AGENT_", AgentConfig, "agent.md"),
        ("SLICE_AGGREGATOR_", Watching, "configuration.md"),
        ("SCHEDULER_", Nothing, "configuration.md"),
        ("ADMISSION_CHECK_", Watching, "configuration.md"),
        ("API_", ApiConfig, "configuration.md"),
        ("CONSOLE_", ConsoleConfig, "console.md"),
        ("CHECK_BUDGET_", BudgetConfig, "checks-shipped.md"),
        ("CHECK_WEBHOOK_", WebhookConfig, "checks-shipped.md"),
        ("CHECK_PROVISIONING_", ProvisioningConfig, "checks-shipped.md"),
    ],
)
def test_variables_of_services_are_described(prefix: str, config: type[msgspec.Struct], page: str) -> None:
    """The page has every variable of the service, and none that it would refuse."""
    text = (DOCS / page).read_text()
    shared = {"cell", "nats_url", "instance", "stream_replicas"}
    names = {field.name for field in msgspec.structs.fields(config)} - shared
    known = {prefix + each.upper() for each in names}
    assert known <= set(re.findall(rf"{prefix}[A-Z_]+", text))
    assert set(re.findall(rf"`({prefix}[A-Z_]+)`", EVERYTHING)) <= known


def test_gates_are_described() -> None:
    """Every gate is on the page; those with an effect with their default."""
    for gate, default in DEFAULTS.items():
        assert f"`{gate}`" in CONFIGURATION, gate
        rows = [r for r in CONFIGURATION.splitlines() if r.startswith("| ") and f"`{gate}`" in r]
        for row in rows:
            assert f"| {'on' if default else 'off'} |" in row, row
    found = set(
        re.findall(
            r"`([A-Z][A-Za-z]+)`", CONFIGURATION.partition("## Feature gates")[2].partition("\n## ")[0]
        )
    )
    assert found <= set(DEFAULTS)


def test_gates_have_the_effect_described() -> None:
    """A gate in the table is asked for somewhere; one said to be without effect is not, in any decision."""
    section = CONFIGURATION.partition("## Feature gates")[2].partition("\n## ")[0]
    idle = set(re.findall(r"`(\w+)`", section.partition("Known, so that")[2]))
    assert idle == features.WITHOUT_EFFECT
    code = {
        path: path.read_text() for folder in ("libs", "services") for path in (ROOT / folder).rglob("*.py")
    }
    constants = {
        value: name
        for name, value in vars(features).items()
        if name.isupper() and isinstance(value, str) and value in DEFAULTS
    }
    for gate in DEFAULTS:
        named = re.compile(rf'"{gate}"|\b{constants.get(gate, gate)}\b')
        users = [path for path, text in code.items() if path.name != "features.py" and named.search(text)]
        if gate in idle:
            deciding = [path for path in users if "validation" not in path.parts]
            assert not deciding, f"{gate} has an effect in {deciding[0].name}"
        else:
            assert users, f"{gate} has no effect"


def test_settings_are_described() -> None:
    """Every field of the Configuration object is in its table."""
    table = CONFIGURATION.partition("| field of `spec` |")[2].partition("\n\n")[0]
    nested = (
        kueue.FairSharingConfig,
        kueue.WaitForPodsReady,
        kueue.RequeuingStrategy,
        kueue.AdmissionChecksConfig,
    )
    inner = {field.encode_name for kind in nested for field in msgspec.structs.fields(kind)}
    outer = {field.encode_name for field in msgspec.structs.fields(kueue.ConfigurationSpec)}
    for field in (inner | outer) - {
        "requeuingStrategy",
        "fairSharing",
        "waitForPodsReady",
        "admissionChecks",
    }:
        assert re.search(rf"\b{field}\b", table), field


def test_examples_of_configuration_are_valid() -> None:
    """The manifests on the pages are read without an error."""
    from sluice.api.validation import validate
    from sluice.api.yaml import decode_yaml

    count = 0
    for path in PAGES:
        for block in blocks(path.read_text(), "yaml"):
            if "apiVersion:" not in block:
                continue
            for document in decode_yaml(block.encode()):
                assert document.manifest is not None, f"{name(path)}: {document.errors}"
                assert not validate(document.manifest), f"{name(path)}: {validate(document.manifest)}"
                count += 1
    assert count >= 5


def test_job_events_are_described() -> None:
    """The table of job events has every event with every field."""
    rows = (DOCS / "jobs.md").read_text().splitlines()
    for kind in (k for k in vars(job).values() if isinstance(k, type) and issubclass(k, job.JobEvent)):
        if kind.__name__ in ("JobEvent", "Seen", "Lost", "Away"):
            continue
        row = next((r for r in rows if r.startswith(f"| `{kind.__name__}` |")), "")
        for field in msgspec.structs.fields(kind):
            assert f"`{field.encode_name}`" in row, f"{kind.__name__}.{field.encode_name}"


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_python_compiles(path: Path) -> None:
    """Examples are whole and written for today's Python."""
    for block in blocks(path.read_text(), "python"):
        compile(block, name(path), "exec")
