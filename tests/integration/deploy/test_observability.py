"""The compose profile `observability`, as far as it can be looked at without its images."""

import shutil
import subprocess
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from tests.unit.docs.dashboards import BOARDS

from .compose import ROOT

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
PROFILE = {name: one for name, one in SERVICES.items() if one.get("profiles") == ["observability"]}
FOLDER = ROOT / "deploy/observability"


def read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text())


def seen(service: str) -> dict[PurePosixPath, Path]:
    """Return what a container sees of this repository: path there -> path here."""
    pairs = [volume.split(":") for volume in SERVICES[service]["volumes"]]
    assert all(mode == ["ro"] for here, _, *mode in pairs if here.startswith("./"))
    found = {PurePosixPath(there): ROOT / here for here, there, *_ in pairs if here.startswith("./")}
    assert all(here.exists() for here in found.values())
    return found


def test_it_stands_beside_the_cell_and_is_reached_from_this_machine_only() -> None:
    assert PROFILE.keys() == {"prometheus", "grafana", "collector"}
    for name, one in PROFILE.items():
        assert all(port.startswith("127.0.0.1:") for port in one["ports"]), name
        assert one["cap_drop"] == ["ALL"], name
        assert not one["image"].endswith("latest}"), name
    assert not [name for name, one in SERVICES.items() if {*one.get("depends_on", ())} & PROFILE.keys()]


def test_prometheus_asks_who_answers() -> None:
    config = read("prometheus.yaml")
    targets = {job["job_name"]: job["static_configs"][0]["targets"] for job in config["scrape_configs"]}
    port = SERVICES["api"]["environment"]["API_HTTP"]
    assert port == "${SLUICE_API_HTTP:-}", "off, unless it is asked for"
    assert targets["sluice"] == ["api:9400"], "the job that dashboards and alerts look at"
    assert ":9400 docker compose --profile observability" in (ROOT / "docs/deploy.md").read_text()
    _, _, exported = read("collector.yaml")["exporters"]["prometheus"]["endpoint"].partition(":")
    assert targets["services"] == [f"collector:{exported}"]
    (alerts,) = config["rule_files"]
    assert seen("prometheus")[PurePosixPath(alerts)] == ROOT / "deploy/prometheus/alerts.yaml"
    assert "--config.file=/etc/prometheus/prometheus.yaml" in SERVICES["prometheus"]["command"]
    assert seen("prometheus")[PurePosixPath("/etc/prometheus/prometheus.yaml")] == FOLDER / "prometheus.yaml"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    """With its rules, laid out as in the container."""
    for there, here in seen("prometheus").items():
        shutil.copy(here, tmp_path / there.name)
    config = tmp_path / "prometheus.yaml"
    config.write_text(config.read_text().replace("/etc/prometheus/", ""))
    said = subprocess.run(
        ["promtool", "check", "config", str(config)], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr
    assert "7 rules found" in said.stdout


def test_services_export_to_the_collector() -> None:
    """Each has the variables, off by default; the collector has a way for metrics, and one for traces."""
    config = read("collector.yaml")
    _, _, port = config["receivers"]["otlp"]["protocols"]["http"]["endpoint"].partition(":")
    deciding = [one for one in SERVICES.values() if "sluice.services." in " ".join(one.get("command", ()))]
    assert len(deciding) == 7
    for one in deciding:
        assert one["environment"]["SLUICE_OTEL"] == "${SLUICE_OTEL:-none}"
        assert one["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"] == f"http://collector:{port}"
    assert SERVICES["collector"]["ports"] == [f"127.0.0.1:${{COLLECTOR_PORT:-4318}}:{port}"]
    assert config["service"]["pipelines"].keys() == {"metrics", "traces"}
    for pipeline in config["service"]["pipelines"].values():
        for kind, used in pipeline.items():
            assert set(used) <= config[kind].keys()
    assert SERVICES["collector"]["command"] == ["--config=/etc/collector.yaml"]
    assert seen("collector") == {PurePosixPath("/etc/collector.yaml"): FOLDER / "collector.yaml"}


def test_grafana_has_the_dashboards_and_prometheus() -> None:
    folders = seen("grafana")
    (provider,) = read("grafana/dashboards/provider.yaml")["providers"]
    dashboards = folders[PurePosixPath(provider["options"]["path"])]
    assert {path.stem for path in dashboards.glob("*.json")} == set(BOARDS)
    assert folders[PurePosixPath("/etc/grafana/provisioning")] == FOLDER / "grafana"
    (source,) = read("grafana/datasources/sources.yaml")["datasources"]
    assert source["type"] == "prometheus"
    assert source["isDefault"]
    host, _, port = source["url"].removeprefix("http://").partition(":")
    assert SERVICES[host]["ports"][0].endswith(f":{port}")


def test_nobody_can_change_what_grafana_shows() -> None:
    """It knows a first user with a password that everybody knows: neither a form nor basic auth takes it."""
    env = SERVICES["grafana"]["environment"]
    assert env["GF_AUTH_BASIC_ENABLED"] == "false"
    assert env["GF_AUTH_DISABLE_LOGIN_FORM"] == "true"
    assert env["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
