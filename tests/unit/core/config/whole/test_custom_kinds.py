"""Kinds that teams register: their definitions, their objects against the schema, deletion, replay."""

import socket
from typing import Any

import msgspec
import pytest

from sluice.api.scheme import WORDS
from sluice.api.validation.custom import MAX_STEPS
from sluice.core.config.objects import Objects, order
from sluice.events.config import ObjectApplied
from sluice.protocol.query import Result
from tests.support.checks_world import check as admission_check
from tests.support.checks_world import world
from tests.unit.core.config.test_plan import Cell, causes, manifest, queue

API = "finance.example.com/v1"

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "required": ["team"],
            "properties": {
                "team": {"type": "string", "minLength": 2},
                "hours": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
                "mode": {"type": "string", "enum": ["Hold", "Evict"]},
                "notes": {"type": "string", "nullable": True, "pattern": "(a+)+$"},
                "limits": {
                    "type": "array",
                    "maxItems": 3,
                    "items": {"type": "object", "properties": {"cpu": {"type": "integer"}}},
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
    },
}


def definition(
    kind: str = "TeamBudget", group: str = "finance.example.com", **changes: Any
) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    spec = {
        "group": group,
        "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "shortNames": ["tb"]},
        "scope": "Cluster",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}},
            {"name": "v1alpha1", "served": False, "storage": False, "schema": {"openAPIV3Schema": SCHEMA}},
        ],
        **changes,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": spec,
    }


def with_schema(spec: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": spec}}
    return definition(versions=[{"name": "v1", "schema": {"openAPIV3Schema": schema}}])


def budget(name: str = "research", api: str = API, kind: str = "TeamBudget", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": {"team": "ml", **spec}}


def gate(name: str = "gate", of: str = "research") -> dict[str, Any]:
    parameters = {"apiGroup": "finance.example.com", "kind": "TeamBudget", "name": of}
    return manifest("AdmissionCheck", name, {"controllerName": "example.com/b", "parameters": parameters})


@pytest.fixture
def cell() -> Cell:
    found = Cell()
    assert found.apply(definition()).outcome == "created"
    return found


def test_objects_of_a_registered_kind_are_stored(cell: Cell) -> None:
    """Applied, unchanged, changed, as every other object; the log has it whole."""
    assert cell.apply(budget(hours=5)).outcome == "created"
    assert cell.apply(budget(hours=5)).outcome == "unchanged"
    changed = cell.apply(budget(hours=6))
    assert (changed.outcome, changed.object["metadata"]["generation"]) == ("configured", 2)
    assert changed.object["spec"] == {"team": "ml", "hours": 6}
    assert cell.stored("TeamBudget", "research").spec["hours"] == 6


def test_a_definition_and_its_objects_may_come_together() -> None:
    """In one request, in the order in which `apply` sends them."""
    cell = Cell()
    found = [gate(), budget(), definition()]
    results = cell.apply(*sorted(found, key=lambda each: order(each["kind"])))
    assert [(r.kind, r.outcome, len(r.warnings)) for r in results] == [
        ("CustomResourceDefinition", "created", 1),
        ("TeamBudget", "created", 0),
        ("AdmissionCheck", "created", 0),
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"team": 3}, [("spec.team", "FieldValueTypeInvalid")]),
        ({"team": "x"}, [("spec.team", "FieldValueInvalid")]),
        ({"hours": 0}, [("spec.hours", "FieldValueInvalid")]),
        ({"mode": "Maybe"}, [("spec.mode", "FieldValueNotSupported")]),
        ({"huors": 4}, [("spec.huors", "FieldUnknown")]),
        ({"limits": [{"cpu": 1}, {"cpu": "two"}]}, [("spec.limits[1].cpu", "FieldValueTypeInvalid")]),
        ({"limits": [{"cpus": 1}]}, [("spec.limits[0].cpus", "FieldUnknown")]),
        ({"limits": [{}] * 4}, [("spec.limits", "FieldValueTooMany")]),
        ({"free": {"any": {"thing": 1}}, "notes": "a" * 40 + "!"}, []),
    ],
)
def test_errors_name_the_fields(cell: Cell, spec: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """With Kubernetes' types, and the paths that the author wrote; no regular expression is run."""
    result = cell.apply(budget(**spec))
    assert (causes(result) if result.status else []) == expected


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"limits": [{}] * 4}, "Too many: 4: must have at most 3 items"),
        ({"notes": 3}, "Invalid value: 3: must be string or null"),
        ({"team": []}, 'Invalid value: "array": must be string'),
        ({"mode": {}}, '"object"'),
        ({"code": "abcde"}, 'Invalid value: "abcde": may not be more than 4 characters'),
    ],
)
def test_errors_speak_of_json(spec: dict[str, Any], message: str) -> None:
    """In Kubernetes' words, not in those of the library that looks."""
    cell = Cell()
    properties = {**SCHEMA["properties"]["spec"]["properties"], "code": {"type": "string", "maxLength": 4}}
    cell.apply(with_schema({"type": "object", "properties": properties}))
    status = cell.apply(budget(**spec)).status
    assert status is not None
    assert message in status.message
    assert "[]" not in status.message


def test_unique_items_may_be_said_to_be_off() -> None:
    """Kubernetes forbids only `true`."""
    assert Cell().apply(with_schema({"type": "array", "uniqueItems": False})).outcome == "created"


def test_what_is_missing_is_named(cell: Cell) -> None:
    found = {**budget(), "spec": {}}
    assert causes(cell.apply(found)) == [("spec", "FieldValueRequired")]
    found = {**budget(), "spec": {"hours": 1}}
    assert causes(cell.apply(found)) == [("spec.team", "FieldValueRequired")]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"api": "finance.example.com/v1alpha1"}, "Invalid"),
        ({"api": "other.example.com/v1"}, "NotFound"),
        ({"kind": "TeamBugdet"}, "NotFound"),
    ],
)
def test_kinds_and_versions_that_nobody_has_registered(cell: Cell, changed: Any, reason: str) -> None:
    """Refused, with what is there to do."""
    status = cell.apply(budget(**changed)).status
    assert status is not None
    assert status.reason == reason
    assert "CustomResourceDefinition" in status.message or "finance.example.com/v1" in status.message


@pytest.mark.parametrize(
    ("found", "field"),
    [
        (definition(scope="Namespaced"), "spec.scope"),
        (definition(kind="Budget"), "spec.names.kind"),
        (definition(kind="Job"), "spec.names.kind"),
        (definition(group="kueue.x-k8s.io"), "spec.group"),
        (definition(group="nodots"), "spec.group"),
        (definition(versions=[]), "spec.versions"),
        (definition(versions=[{"name": "v1"}]), "spec.versions[0].schema.openAPIV3Schema"),
        (with_schema({"$ref": "http://example.com/schema.json"}), "$ref"),
        (with_schema({"properties": {"a": {"items": {"$ref": "#"}}}}), "$ref"),
        (with_schema({"type": "nonsense"}), "spec.versions[0].schema.openAPIV3Schema"),
        (with_schema({"type": "array", "uniqueItems": True}), "uniqueItems"),
        (with_schema({"description": "x" * 70_000}), "spec.versions[0].schema.openAPIV3Schema"),
        ({**definition(), "metadata": {"name": "budgets"}}, "metadata.name"),
    ],
)
def test_definitions_that_are_refused(found: dict[str, Any], field: str) -> None:
    """Each with the field at fault."""
    assert any(field in place for place, _ in causes(Cell().apply(found)))


@pytest.mark.parametrize(
    ("names", "field"),
    [
        ({"shortNames": ["th", "tb"]}, "spec.names.shortNames[1]"),
        ({"shortNames": ["teambudgets"]}, "spec.names.shortNames[0]"),
        ({"shortNames": ["TeamBudget"]}, "spec.names.shortNames[0]"),
        ({"singular": "tb"}, "spec.names.singular"),
        ({"plural": "tb"}, "spec.names.plural"),
        ({"shortNames": ["th", "cq"]}, "spec.names.shortNames[1]"),
        ({"shortNames": ["variants"]}, "spec.names.shortNames[0]"),
        ({"singular": "check"}, "spec.names.singular"),
        ({"plural": "jobs"}, "spec.names.plural"),
    ],
)
def test_a_word_names_one_kind_only(cell: Cell, names: dict[str, Any], field: str) -> None:
    """Kinds, plurals, singulars and short names are all typed in the same place."""
    all_names = {"kind": "Thing", "plural": "things", "singular": "thing", **names}
    found = definition(kind="Thing", group="evil.example.com", names=all_names)
    found["metadata"]["name"] = f"{all_names['plural']}.evil.example.com"
    refused = cell.apply(found)
    assert refused.outcome == "refused"
    assert [place for place, _ in causes(refused)] == [field]


def test_the_owner_of_a_word_keeps_it(cell: Cell) -> None:
    """Also when its definition changes; a word given up is free for others."""
    changed = definition()
    changed["metadata"]["labels"] = {"a": "b"}
    assert cell.apply(changed).outcome == "configured"
    changed["spec"]["names"] = {**changed["spec"]["names"], "shortNames": ["tbu"]}
    assert cell.apply(changed).outcome == "configured"
    thing = definition(kind="Thing", group="evil.example.com")
    assert cell.apply(thing).outcome == "created"


def test_every_word_of_the_command_line_is_taken() -> None:
    from sluice.cli.kit.resources import RESOURCES

    assert {word for r in RESOURCES for word in (r.singular, r.plural, *r.short)} <= WORDS


def test_a_property_may_be_called_like_a_keyword() -> None:
    """What stands below `properties` are names."""
    spec = {"type": "object", "properties": {"id": {"type": "string"}, "definitions": {"type": "integer"}}}
    other = Cell()
    assert other.apply(with_schema(spec)).outcome == "created"
    assert other.apply({**budget(), "spec": {"id": "x", "definitions": 1}}).outcome == "created"


def test_a_schema_cannot_be_nested_without_end() -> None:
    """Nor can it hold up anybody who validates with it."""
    spec: dict[str, Any] = {"type": "string"}
    for _ in range(40):
        spec = {"type": "object", "properties": {"a": spec}}
    assert Cell().apply(with_schema(spec)).status is not None


def test_a_validation_takes_so_many_steps_only() -> None:
    """Many alternatives, many items: refused, not worked on for minutes."""
    cell = Cell()
    anything = {"anyOf": [{"type": "string", "minLength": n} for n in range(500, -1, -1)]}
    cell.apply(with_schema({"type": "object", "properties": {"a": {"type": "array", "items": anything}}}))
    result = cell.apply({**budget(), "spec": {"a": [""] * 9_000}})
    assert causes(result) == [("spec", "FieldValueForbidden")]
    assert str(MAX_STEPS) in result.status.message


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the schema says, nobody is asked."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was made")

    monkeypatch.setattr(socket, "create_connection", refuse)
    cell = Cell()
    cell.apply(with_schema({"type": "object", "properties": {"a": {"type": "string", "format": "uri"}}}))
    assert cell.apply({**budget(), "spec": {"a": "http://example.com"}}).outcome == "created"


# Deletion


def test_what_a_check_names_stays_until_it_is_let_go(cell: Cell) -> None:
    """An object in use is terminating; so is the definition whose objects there are."""
    cell.apply(budget(), gate())
    assert cell.delete("CustomResourceDefinition", "teambudgets.finance.example.com").outcome == "terminating"
    assert cell.delete("TeamBudget", "research").outcome == "terminating"
    assert cell.finalize() == []
    cell.delete("AdmissionCheck", "gate")
    while cell.finalize():
        pass
    assert cell.stored("TeamBudget", "research") is None
    assert cell.stored("CustomResourceDefinition", "teambudgets.finance.example.com") is None
    assert "TeamBudget" not in cell.objects.by_kind


def test_what_is_not_in_use_goes_at_once(cell: Cell) -> None:
    cell.apply(budget())
    assert cell.delete("TeamBudget", "research").outcome == "deleted"
    assert cell.delete("CustomResourceDefinition", "teambudgets.finance.example.com").outcome == "deleted"
    assert cell.apply(budget()).status is not None
    assert cell.delete("TeamBudget", "research").status is not None


def test_no_objects_for_a_kind_that_is_going(cell: Cell) -> None:
    cell.apply(budget())
    cell.delete("CustomResourceDefinition", "teambudgets.finance.example.com")
    result: Result = cell.apply(budget("another"))
    assert result.status is not None
    assert result.status.reason == "Conflict"


# From there on


def test_a_snapshot_has_them(cell: Cell) -> None:
    """And goes on as the live state does."""
    cell.apply(budget(), gate())
    rows = cell.objects.rows()
    again = Objects.of_rows(rows, [])
    assert again.rows() == rows
    cell.objects = again
    assert cell.apply(budget()).outcome == "unchanged"
    assert cell.delete("TeamBudget", "research").outcome == "terminating"


def test_a_check_is_warned_of_parameters_that_are_not_there(cell: Cell) -> None:
    (warning,) = cell.apply(gate(of="nothing")).warnings
    assert warning.startswith('there is no TeamBudget "nothing" (yet)')


@pytest.mark.parametrize(
    ("word", "value"),
    [("apiGroup", "not a group"), ("kind", "no/kind"), ("name", "Upper"), ("name", "")],
)
def test_parameters_of_a_check_are_validated(word: str, value: str) -> None:
    parameters = {"apiGroup": "example.com", "kind": "Thing", "name": "x", word: value}
    found = manifest("AdmissionCheck", "c", {"controllerName": "a/b", "parameters": parameters})
    assert [place for place, _ in causes(Cell().apply(found))] == [f"spec.parameters.{word}"]


def test_they_reach_the_controller(cell: Cell) -> None:
    """The events that are committed are what the admission-check service passes on."""
    checks = world()
    parameters = {"apiGroup": "finance.example.com", "kind": "TeamBudget", "name": "research"}
    checks.apply(admission_check("a", parameters=parameters))
    checks.presence("ctl-a")
    result = cell.apply(budget(hours=5))
    whole = msgspec.Raw(msgspec.json.encode(result.object))
    checks.tell("config", ObjectApplied(cause=0, kind="TeamBudget", name="research", object=whole))
    checks.apply({**queue("cq"), "spec": {**queue("cq")["spec"], "admissionChecksStrategy": {
        "admissionChecks": [{"name": "a"}]
    }}})  # fmt: skip
    key = checks.create("w")
    checks.reserve(key).settle()
    request = checks.requests()[key, "a"]
    assert request.parameters_spec == {"team": "ml", "hours": 5}
    checks.verify()


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (3, ""),
        (3.0, ""),
        ("25%", ""),
        (1.5, "Invalid value: 1.5: must be integer or string"),
        (True, "Invalid value: true: must be integer or string"),
        ([], 'Invalid value: "array": must be integer or string'),
    ],
)
def test_int_or_string_is_either(value: Any, error: str) -> None:
    """`x-kubernetes-int-or-string` takes no fraction; a whole number is an integer however it is written."""
    cell = Cell()
    cost = {"x-kubernetes-int-or-string": True}
    spec = {"type": "object", "properties": {"team": {"type": "string"}, "cost": cost}}
    assert cell.apply(with_schema(spec)).outcome == "created"
    found = cell.apply(budget(cost=value))
    if error:
        assert found.status.message.endswith(f"spec.cost: {error}")
    else:
        assert found.outcome == "created"


def test_limits_are_told_in_words_of_kubernetes(cell: Cell) -> None:
    found = cell.apply(budget(team="x", hours=0)).status.message
    assert 'spec.team: Invalid value: "x": should be at least 2 chars long' in found
    assert "spec.hours: Invalid value: 0: should be greater than 0" in found
