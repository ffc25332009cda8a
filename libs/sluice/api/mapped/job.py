"""The struct of all kinds that are read by a table: their spec is kept as it was written."""

from typing import Any

from sluice.api.meta import Manifest, ObjectMeta


class MappedJob(Manifest, frozen=True):
    """A job of a kind that `table` knows, or that a team has described."""

    api_version: str
    kind: str
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: Any = None
