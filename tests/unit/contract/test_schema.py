"""The wire contract in proto/ is what the code speaks."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml
from referencing import Registry, Resource

from sluice.contract import schema_api, schema_cells, schema_checks
from sluice.contract.schema import files
from sluice.events.catalogue import EVENTS, WRITERS
from sluice.events.codec import decode_commit, decode_message
from sluice.protocol import query
from sluice.protocol.checks import CheckVerdict

ROOT = Path(__file__).parents[3]
FILES = files()
GOLDEN = sorted(name for name in FILES if name.startswith("proto/golden/"))


def test_generated_files_are_current():
    """Whoever changes an event also changes the contract: `make proto`."""
    stale = [
        name
        for name, text in FILES.items()
        if not (ROOT / name).exists() or (ROOT / name).read_text() != text
    ]
    assert not stale, "run `make proto`"


def test_no_generated_file_is_left_over():
    found = {str(p.relative_to(ROOT)) for p in (ROOT / "proto").rglob("*.json")}
    assert found == {name for name in FILES if name.endswith(".json")}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_message_fits_schema_and_decodes(name: str):
    """A client that follows the schema accepts what we write, and we read it back."""
    text = FILES[name]
    _, _, family, file = name.split("/")
    kind = file.removesuffix(".json")
    message = json.loads(text)
    if family in WRITERS:
        commit = decode_commit(text.encode())
        assert type(commit.steps[0].events[0]) is EVENTS[kind]
        _validate(family, kind, message["data"]["steps"][0]["events"][0])
        return
    if family == "job":
        assert decode_message(text.encode()).type == kind
        if kind != "JobSubmitted":
            _validate("job", kind, message["data"])
        return
    if family == "admission-check":
        cls = {one.__name__: one for one in schema_checks.TYPES}[kind.partition("-")[0]]
        value = message["data"] if cls is CheckVerdict else message
        _validate(family, cls.__name__, value)
        assert json.loads(msgspec.json.encode(msgspec.convert(value, cls))) == value
        return
    if family == schema_cells.FAMILY:
        assert decode_message(text.encode()).type == kind
        _validate(family, kind, message["data"])
        return
    if family == "api":
        cls = {one.__name__: one for one in schema_api.TYPES}[kind.partition("-")[0]]
        _validate(family, cls.__name__, message)
        assert json.loads(msgspec.json.encode(msgspec.convert(message, cls))) == message
        return
    _validate("projections", kind, message)


def test_schema_refuses_a_wrong_type():
    """The schemas say something: a wrong type fails."""
    event = json.loads(FILES["proto/golden/slices/JobResumed.json"])["data"]["steps"][0]["events"][0]
    with pytest.raises(jsonschema.ValidationError):
        _validate("slices", "JobResumed", event | {"attempt": "one"})


def test_asyncapi_names_a_channel_per_writer():
    document = yaml.safe_load(FILES["proto/asyncapi.yaml"])
    assert document["asyncapi"] == "3.0.0"
    assert set(WRITERS) <= set(document["channels"])
    references = {o["channel"]["$ref"].rpartition("/")[2] for o in document["operations"].values()}
    assert references <= set(document["channels"])


def _validate(family: str, kind: str, value: Any) -> None:
    schema = json.loads(FILES[f"proto/schema/{family}.json"])
    registry: Registry = Registry().with_resource("urn:s", Resource.from_contents(schema))
    jsonschema.Draft202012Validator({"$ref": f"urn:s#/$defs/{kind}"}, registry=registry).validate(value)


def test_a_list_of_none_has_its_items():
    """Clients in other languages look for the field that the schema names."""
    assert msgspec.json.decode(msgspec.json.encode(query.ListAnswer(seq=7)))["items"] == []
