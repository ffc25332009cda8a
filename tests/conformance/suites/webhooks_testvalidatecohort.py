"""Field errors of a Cohort."""

from sluice.api.kueue import Cohort
from sluice.api.validation.cohort import check_cohort
from tests.conformance.build_api import compare_errors, only
from tests.conformance.framework import Json

SUITE = "webhooks.TestValidateCohort"
LEFT_OUT: dict[str, str] = {}


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    compare_errors(case, check_cohort(only(case, Cohort)))
