"""Columns of agents."""

from .table import Object


def agent_flavors(obj: Object) -> str:
    """Return the flavors that an agent serves, `<any>` if all, `<unknown>` if nobody knows."""
    found = (obj.get("status") or {}).get("flavors")
    return "<unknown>" if found is None else ",".join(found) or "<any>"
