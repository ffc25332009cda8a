"""The api service speaks as proto/ says, to a client that knows nothing but the schemas."""

import json
import re
from pathlib import Path

import jsonschema
import nats
import pytest
from referencing import Registry, Resource

from sluice.contract import schema_api

pytestmark = pytest.mark.nats

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "proto/schema/api.json").read_text())
REGISTRY: Registry = Registry().with_resource("urn:s", Resource.from_contents(SCHEMA))
GOLDEN = ROOT / "proto/golden/api"


def fits(kind, value):
    jsonschema.Draft202012Validator({"$ref": f"urn:s#/$defs/{kind}"}, registry=REGISTRY).validate(value)


async def test_golden_requests_are_answered_as_the_schemas_say(system):
    """Each example of a request is taken, and its answer fits the answer's schema."""
    connection = await nats.connect(system.url)
    for name, (request, answer, _) in schema_api.ENDPOINTS.items():
        for path in sorted(GOLDEN.glob(f"{request.__name__}*.json")):
            body = json.loads(path.read_text())
            for field in ("minSeq", "since"):
                if field in body:
                    body[field] = 0  # the example's is of another log
            reply = await connection.request(f"sluice.main.{name}", json.dumps(body).encode(), timeout=30)
            said = json.loads(reply.data)
            assert said.get("kind") != "Status", (name, said)
            fits(answer.__name__, said)
    wrong = await connection.request("sluice.main.query.list", b'{"kind": "Job", "nmae": "x"}', timeout=30)
    fits("Status", json.loads(wrong.data))
    assert "nmae" in json.loads(wrong.data)["message"]
    await connection.close()


async def test_the_program_in_the_docs_does_what_it_says(system, capsys):
    """Each `print` prints what stands behind it."""
    text = (ROOT / "docs/sdk.md").read_text()
    program = next(block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "nats" in block)
    names: dict = {}
    exec(program, names)
    await names["main"](system.url)

    promised = re.findall(r"print\(.*\)  # (.*)", program)
    assert capsys.readouterr().out.splitlines() == promised
    assert len(promised) == 3
