"""Why a workload cannot be queued, and reservations that end with their queue (G6)."""

from tests.conformance.framework import Json
from tests.conformance.reconcile import run_reconcile

SUITE = "core.TestReconcileInadmissible"


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    run_reconcile(case)
