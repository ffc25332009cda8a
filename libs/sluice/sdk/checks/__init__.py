"""Write an admission check: a decorated function that holds and releases jobs.

    from sluice.sdk.checks import Controller, Ready, Request, Retry, Verdict

    app = Controller("example.com/budget")

    @app.check
    async def budget(request: Request) -> Verdict:
        if await affordable(request.namespace, request.usage_by_flavor()):
            return Ready()
        return Retry(after=600, message="budget exhausted")

    if __name__ == "__main__":
        app.run()

What becomes of a workload is decided by the admission-check service from the verdicts; restarts, replicas,
cancellation and repetition are this package's business. `sluice.sdk.checks.testing` tests a check without
a server.
"""

from sluice.api.kueue import PodSetUpdate

from ._controller import Check, Controller, DuplicateCheckError, Settings
from ._request import ParametersError, Request
from ._verdicts import (
    Pending,
    PreemptionRequired,
    Ready,
    Rejected,
    Retry,
    Verdict,
    VerdictError,
    pod_set_update,
)

__all__ = [
    "Check",
    "Controller",
    "DuplicateCheckError",
    "ParametersError",
    "Pending",
    "PodSetUpdate",
    "PreemptionRequired",
    "Ready",
    "Rejected",
    "Request",
    "Retry",
    "Settings",
    "Verdict",
    "VerdictError",
    "pod_set_update",
    "testing",
]
