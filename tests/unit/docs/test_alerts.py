"""Alerts, their runbooks and the metrics they look at belong together."""

import re
import shutil
import subprocess

import pytest
import yaml

from sluice.core.views.totals import TOTALS
from sluice.readmodel.metrics import GAUGES, PREFIX, REJECTED

from .pages import ROOT

RULES = ROOT / "deploy/prometheus/alerts.yaml"
ALERTS = {
    rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
}
HEADINGS = ["What it means", "Who is hit", "What to look at", "What it tells", "What to do"]


def test_each_alert_has_a_runbook_and_each_runbook_an_alert():
    pages = {page.stem: page for page in (ROOT / "docs/runbooks").glob("*.md")}
    assert pages.keys() == ALERTS.keys()
    for name, rule in ALERTS.items():
        assert ROOT / rule["annotations"]["runbook"] == pages[name]
        assert re.findall(r"^## (.*)$", pages[name].read_text(), re.MULTILINE) == HEADINGS
        assert "sluice " in pages[name].read_text().partition("```sh")[2], "what to type"


def test_alerts_look_at_metrics_and_labels_that_there_are():
    known = {f"{PREFIX}{name}": set(gauge.labels) for name, gauge in GAUGES.items()}
    known |= {name: set(total.labels) for name, total in TOTALS.items()} | {REJECTED: set()}
    for name, rule in ALERTS.items():
        used = re.findall(rf"\b({PREFIX}\w+)(?:\{{(\w+)=)?", rule["expr"])
        assert used or "up{" in rule["expr"], name
        for metric, label in used:
            assert metric in known, name
            assert not label or label in known[metric], name


def test_alerts_fire_when_they_should():
    """What `promtool` makes of series in which the fault is there, and of others in which it is not."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool, which Debian has in `prometheus`, is not installed")
    tested = RULES.with_name("alerts_test.yaml")
    said = subprocess.run(
        [promtool, "test", "rules", str(tested)], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr
    cases = [case for test in yaml.safe_load(tested.read_text())["tests"] for case in test["alert_rule_test"]]
    fires = {case["alertname"] for case in cases if case.get("exp_alerts")}
    silent = {case["alertname"] for case in cases if not case.get("exp_alerts")}
    assert fires == silent == ALERTS.keys()
