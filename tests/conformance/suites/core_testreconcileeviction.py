"""Evictions and deactivations of workloads with quota (G8, AC3, SC7)."""

from tests.conformance.framework import Json
from tests.conformance.reconcile import run_reconcile

SUITE = "core.TestReconcileEviction"


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    run_reconcile(case)
