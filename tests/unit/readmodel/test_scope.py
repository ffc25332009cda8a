"""What those see who may see some namespaces only."""

import pytest

from sluice.protocol.query import ListRequest
from sluice.readmodel.scope import ForbiddenError, check, in_scope


def test_who_submits_jobs_sees_what_must_be_known_for_that() -> None:
    """Priority classes and teams' kinds of jobs, but no other objects of the whole cell."""
    for kind in ("JobKind", "WorkloadPriorityClass"):
        check(ListRequest(kind=kind, within=["blue"]))
        assert in_scope(kind, "any", ["blue"])
    for kind in ("ClusterQueue", "CustomResourceDefinition"):
        with pytest.raises(ForbiddenError, match="of the whole cell"):
            check(ListRequest(kind=kind, within=["blue"]))
