"""Kinds that teams have registered: known to the command when somebody names one."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import click
import msgspec

from sluice.api.custom import CustomObject
from sluice.api.mapped import JobKind, JobKindSpec, MappedJob, mappings_of, own_job
from sluice.cli.kit.columns import dig
from sluice.cli.kit.errors import EXIT_UNAVAILABLE, CliError
from sluice.cli.kit.files import ManifestFile
from sluice.cli.kit.resources import (
    PLAIN_COLUMNS,
    Resource,
    UnknownResourceError,
    jobs_of_kind,
    register,
)
from sluice.core.config.objects import DEFINITION
from sluice.protocol.query import ListRequest, Object

from .client import Api, run


def with_registered[T](ctx: click.Context, parse: Callable[[], T]) -> T:
    """Return what *parse* makes of words; asks the cell for its own kinds when there is an unknown one."""
    try:
        return parse()
    except UnknownResourceError:
        run(ctx, _register)
        return parse()


def registered_kinds(ctx: click.Context) -> list[Resource]:
    """Return the kinds that teams have registered, by name.

    Raises:
        CliError: no cell answers.
    """
    return run(ctx, _registered)


def with_own_jobs(ctx: click.Context, sources: Sequence[ManifestFile]) -> list[ManifestFile]:
    """Return the manifests, those of teams' kinds of jobs as jobs; asks the cell if there may be any.

    Kinds that stand among the manifests count, too. Without a cell only they do.

    Raises:
        CliError: the cell does not tell.
    """
    if not any(isinstance(source.manifest, CustomObject) for source in sources):
        return list(sources)
    try:
        specs = run(ctx, _job_kinds)
    except CliError as error:
        if error.code != EXIT_UNAVAILABLE:
            raise
        specs = []
    specs += [source.manifest.spec for source in sources if isinstance(source.manifest, JobKind)]
    mappings = mappings_of(specs)
    found = []
    for source in sources:
        whole = source.manifest
        if isinstance(whole, CustomObject):
            mapping = mappings.get((whole.api_version, whole.kind))
            if mapping is not None:
                job = MappedJob(**{name: getattr(whole, name) for name in whole.__struct_fields__})
                source = replace(source, manifest=own_job(job, mapping))
        found.append(source)
    return found


async def _job_kinds(api: Api) -> list[JobKindSpec]:
    items = (await api.list(ListRequest(kind="JobKind", whole=True))).items
    return [msgspec.convert(item.get("spec", {}), JobKindSpec) for item in items]


async def _register(api: Api) -> None:
    for resource in await _registered(api):
        register(resource)


async def _registered(api: Api) -> list[Resource]:
    found = [_of_job_kind(spec) for spec in await _job_kinds(api)]
    found += [_of_definition(definition) for definition in await _definitions(api)]
    return sorted(found, key=lambda resource: resource.plural)


async def _definitions(api: Api) -> list[Object]:
    try:
        return (await api.list(ListRequest(kind=DEFINITION, whole=True))).items
    except CliError as error:
        if error.code == EXIT_UNAVAILABLE:
            raise
        return []  # who sees some namespaces only sees no objects of the whole cell, nor their kinds


def _of_definition(definition: Object) -> Resource:
    names = dig(definition, "spec", "names", default={})
    versions = [v["name"] for v in dig(definition, "spec", "versions", default=()) if v.get("served", True)]
    return Resource(
        str(names.get("kind", "")),
        str(names.get("plural", "")),
        group=f"{dig(definition, 'spec', 'group', default='')}/{versions[0] if versions else ''}",
        short=tuple(map(str, names.get("shortNames", ()))),
        columns=PLAIN_COLUMNS,
    )


def _of_job_kind(spec: JobKindSpec) -> Resource:
    names = spec.names
    version = f"{spec.group}/{next(iter(spec.versions), '')}"
    words = tuple(word for word in (names.singular, *names.short_names) if word)
    return jobs_of_kind(names.kind, names.plural, version, words)
