"""Flavors that a queue names but that do not exist (any more)."""

from tests.conformance.framework import Json

from . import flavorassigner_testassignflavors as full

SUITE = "flavorassigner.TestDeletedFlavors"


def run(case: Json, header: Json) -> None:
    given = case["input"]
    flavors = [flavor for flavor in given["ResourceFlavor"] if flavor["metadata"]["name"] != "deleted-flavor"]
    full.run({**case, "input": {**given, "ResourceFlavor": flavors}}, header)
