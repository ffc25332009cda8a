"""Kueue's Configuration within the ConfigMap of its manager: read as if it stood in the file by itself."""

from textwrap import dedent, indent

from sluice.api import kueue
from sluice.api.yaml import decode_yaml

CONFIG = dedent("""\
    apiVersion: config.kueue.x-k8s.io/v1beta1
    kind: Configuration
    waitForPodsReady:
      enable: true
      timeout: 2m
    """)
WRONG = CONFIG.replace("2m", "soon")


def config_map(config: str) -> str:
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kueue-manager-config}\ndata:\n"
    return f"{head}  controller_manager_config.yaml: |\n{indent(config, '    ')}"


def test_it_is_found_beside_other_documents() -> None:
    cohort = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {name: all}\n"
    first, second = decode_yaml(f"{cohort}---\n{config_map(CONFIG)}")
    assert isinstance(first.manifest, kueue.Cohort)
    assert isinstance(second.manifest, kueue.Configuration)
    assert second.manifest.spec.wait_for_pods_ready.timeout_seconds == 120
    assert (second.index, second.written["kind"]) == (2, "Configuration")


def test_errors_have_the_line_of_the_file() -> None:
    text = config_map(WRONG)
    (found,) = decode_yaml(text)
    (problem,) = found.problems("cm.yaml")
    line = 1 + text.splitlines().index("      timeout: soon")
    assert problem.startswith(f"cm.yaml:{line}: document 1: Configuration: waitForPodsReady.timeout: Invalid")


def test_of_a_list_too() -> None:
    """As kubectl prints several objects."""
    items = indent(config_map(WRONG), "  ").replace("  apiVersion: v1", "- apiVersion: v1", 1)
    text = f"apiVersion: v1\nkind: List\nitems:\n{items}"
    (found,) = decode_yaml(text)
    assert found.lines == (1 + text.splitlines().index("        timeout: soon"),)


def test_a_text_in_quotes_has_the_line_of_its_key() -> None:
    quoted = "{apiVersion: config.kueue.x-k8s.io/v1beta2, kind: Configuration, foo: 1}"
    text = f'apiVersion: v1\nkind: ConfigMap\ndata:\n  controller_manager_config.yaml: "{quoted}"\n'
    (found,) = decode_yaml(text)
    assert found.lines == (4,)


def test_what_is_merged_into_it_is_found() -> None:
    text = (
        "a: &a {data: {controller_manager_config.yaml: 'foo: ['}}\n<<: *a\napiVersion: v1\nkind: ConfigMap\n"
    )
    (found,) = decode_yaml(text)
    assert [error.type for error in found.errors] == ["Unreadable"]


def test_a_config_map_in_a_config_map_is_no_configuration() -> None:
    (found,) = decode_yaml(config_map(config_map(CONFIG)))
    assert [error.field for error in found.errors] == ["kind"]


def test_another_config_map_is_refused_as_ever() -> None:
    (found,) = decode_yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {b: c}}")
    assert [error.field for error in found.errors] == ["kind"]
