"""Backoff, and the return to the queue (SC7, AC3)."""

from tests.conformance.framework import Json
from tests.conformance.reconcile import run_reconcile

SUITE = "core.TestReconcileRequeue"


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    run_reconcile(case)
