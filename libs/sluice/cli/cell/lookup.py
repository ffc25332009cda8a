"""One object by its name, or an error that names the nearest one that there is."""

from sluice.cli.kit.columns import key
from sluice.cli.kit.errors import CliError
from sluice.cli.kit.resources import Resource
from sluice.cli.kit.table import Object
from sluice.protocol.query import ListRequest
from sluice.replay.source.suggest import did_you_mean

from .client import Api


async def existing(api: Api, resource: Resource, name: str, namespace: str, *, whole: bool = False) -> Object:
    """Return the object of this name; *whole*: of a job, with its spec.

    Raises:
        CliError: there is none; with the nearest name that exists.
    """
    found = await api.get(resource.kind, name, namespace, whole=whole)
    if found is None or resource.only not in ("", found.get("kind")):
        raise await not_found(api, resource, name, namespace)
    return found


async def not_found(api: Api, resource: Resource, name: str, namespace: str) -> CliError:
    """Return the error for a missing object, with the nearest name that exists."""
    near = await api.list(
        ListRequest(
            kind=resource.kind,
            namespace=namespace if resource.namespaced else "",
            field_selector=resource.narrowed(),
            limit=500,
        )
    )
    hint = did_you_mean(name, [obj["metadata"]["name"] for obj in near.items]).strip()
    if not hint and resource.namespaced:
        elsewhere = await api.list(
            ListRequest(kind=resource.kind, name=name, field_selector=resource.narrowed())
        )
        if elsewhere.items:
            hint = (
                f"There is {key(elsewhere.items[0])}: use -n {elsewhere.items[0]['metadata']['namespace']}."
            )
    group = resource.group.split("/")[0] if "/" in resource.group else ""
    plural = f"{resource.plural}.{group}" if group else resource.plural
    return CliError(f'Error from server (NotFound): {plural} "{name}" not found', hint=hint)
