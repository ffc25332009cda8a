"""Field errors of a ResourceFlavor."""

from sluice.api.kueue import ResourceFlavor
from sluice.api.validation.flavor import check_flavor
from tests.conformance.build_api import compare_errors, only
from tests.conformance.framework import Json

SUITE = "webhooks.TestValidateResourceFlavor"
LEFT_OUT: dict[str, str] = {}


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    compare_errors(case, check_flavor(only(case, ResourceFlavor)))
