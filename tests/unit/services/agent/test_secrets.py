"""Secrets that manifests name."""

from pathlib import Path

import pytest

from sluice.api.core_v1 import Container, EnvVar
from sluice.services.agent.errors import PlanError
from sluice.services.agent.plan import PodSetPlan, container_env, resolve
from sluice.services.agent.secrets import SecretRef, read_secret, secret_ref


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    for namespace, value in (("blue", "b"), ("red", "r")):
        (tmp_path / namespace / "registry").mkdir(parents=True)
        (tmp_path / namespace / "registry" / "token").write_text(f"{value}\n")
    return tmp_path


def test_a_job_gets_its_namespaces_secret(secrets: Path) -> None:
    """By name and key, without the line's end."""
    assert read_secret(secrets, "blue", SecretRef("registry", "token")) == "b"
    assert read_secret(secrets, "red", SecretRef("registry", "token")) == "r"
    assert read_secret(secrets, "blue", SecretRef("registry", "other", optional=True)) is None
    assert read_secret(None, "blue", SecretRef("registry", "token", optional=True)) is None


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("../red/registry", "token"),
        ("registry", ".."),
        ("registry", None),
        (None, 3),
        ("", "k"),
        ("a\0b", "k"),
    ],
)
def test_names_lead_nowhere_else(name: object, key: object) -> None:
    with pytest.raises(PlanError, match="is no name"):
        secret_ref({"name": name, "key": key})


def test_what_is_missing_is_said_and_never_quoted(secrets: Path) -> None:
    (secrets / "blue" / "registry" / "bytes").write_bytes(b"\xffsecret")
    for namespace, ref, why in (
        ("blue", SecretRef("registry", "other"), "there is none"),
        ("blue", SecretRef("registry", "bytes"), "is no text"),
        ("..", SecretRef("registry", "token"), "no such namespace"),
        ("green", SecretRef("registry", "token"), "there is none"),
    ):
        with pytest.raises(PlanError, match=why) as caught:
            read_secret(secrets, namespace, ref)
        assert "secret" not in str(caught.value).replace("secret 'registry'", "")


def test_variables_may_refer_to_secrets() -> None:
    """As on Kubernetes; only the plan of the manifest is ever written down, which has the name."""
    named = {"secretKeyRef": {"name": "registry", "key": "token"}}
    variables = [EnvVar(name="TOKEN", value_from=named), EnvVar(name="AUTH", value="Bearer $(TOKEN)")]
    env = container_env(Container(name="c", env=variables), "job")
    pods = PodSetPlan("main", 1, 1, False, ("run",), env)
    assert resolve(pods, {}, lambda ref: f"<{ref.name}>")[1] == {
        "TOKEN": "<registry>",
        "AUTH": "Bearer <registry>",
    }
    with pytest.raises(PlanError, match="AGENT_SECRETS_DIR"):
        resolve(pods, {})
