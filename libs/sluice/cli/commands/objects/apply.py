"""`sluice apply` and `sluice delete`."""

from collections.abc import Sequence
from typing import Any

import click

from sluice.cli.cell.client import Api, run
from sluice.cli.cell.custom_kinds import with_own_jobs, with_registered
from sluice.cli.cell.name_completion import complete_targets
from sluice.cli.cell.selectors import namespace_option
from sluice.cli.commands.jobs.job import delete_jobs
from sluice.cli.commands.jobs.submit import submit_sources
from sluice.cli.kit.errors import CliError, describe_status, plural
from sluice.cli.kit.files import ManifestFile, file_option, read
from sluice.cli.kit.output import print_objects, to_json, to_yaml
from sluice.cli.kit.resources import BY_KIND, Resource, resource_named
from sluice.cli.kit.terminal import echo, style
from sluice.core.config.objects import order
from sluice.protocol.query import ApplyRequest, DeleteRequest, Reference, Result


@click.command()
@file_option()
@namespace_option()
@click.option("-R", "--recursive", is_flag=True, help="Directories below too.")
@click.option(
    "--dry-run",
    type=click.Choice(["none", "client", "server"]),
    default="none",
    help="client: read and check the files only; server: ask what would change.",
)
@click.option("--skip-unsupported", is_flag=True, help="Leave out objects of kinds that there are not here.")
@click.option(
    "-o", "--output", type=click.Choice(["json", "yaml", "name"]), help="Print the objects instead."
)
@click.pass_context
def apply(
    ctx: click.Context,
    filenames: tuple[str, ...],
    namespace: str,
    recursive: bool,
    dry_run: str,
    skip_unsupported: bool,
    output: str | None,
) -> None:
    """Create or change objects from manifests: queues, flavors, cohorts, checks, priority classes.

    A manifest is the whole object: what it leaves out is removed. Jobs among the manifests are submitted
    (a job that exists already stays as it is). With wrong fields every error is listed.
    What is accepted and has no effect is said in a warning.

    \b
    Examples:
      sluice apply -f queues.yaml
      sluice apply -f kueue/ -R --skip-unsupported       what there is no kind for is left out
      sluice apply -f examples/demo/ --dry-run=server    what would change
      kubectl get cq,lq,rf -A -o yaml | sluice apply -f -
    """
    skip = _say_skipped if skip_unsupported else None
    sources = with_own_jobs(ctx, read(filenames, recursive=recursive, skip=skip))
    jobs = [source for source in sources if source.is_job]
    config = sorted(
        (source for source in sources if not source.is_job), key=lambda source: order(source.kind)
    )
    if dry_run == "client":
        for source in [*config, *jobs]:
            echo(f"{_label(source.kind, source.manifest_name)} checked (client dry run)")
        return

    async def work(api: Api) -> int:
        failed = 0
        if config:
            request = ApplyRequest(
                objects=[source.written for source in config],
                namespace=namespace,
                dry_run=dry_run == "server",
            )
            answer = await api.apply(request)
            failed += show_results(answer.results, output, dry_run=dry_run == "server")
        if jobs:
            failed += await submit_sources(api, jobs, namespace, dry_run=dry_run == "server", if_absent=True)
        return failed

    if failed := run(ctx, work):
        raise CliError(f"{plural(failed, 'object')} refused")


def _say_skipped(problem: str) -> None:
    echo(f"{style('Warning:', fg='yellow')} left out: {problem}", err=True)


def show_results(results: Sequence[Result], output: str | None, *, dry_run: bool) -> int:
    """Print what became of each object; return how many were refused."""
    suffix = " (server dry run)" if dry_run else ""
    failed = 0
    objects: list[Any] = []
    for result in results:
        if result.status is not None:
            failed += 1
            echo(describe_status(result.status), err=True)
            continue
        for warning in result.warnings:
            echo(f"{style('Warning:', fg='yellow')} {result.name}: {warning}", err=True)
        if output is None:
            echo(f"{_label(result.kind, result.name)} {result.outcome}{suffix}")
        elif result.object is not None:
            objects.append(result.object)
    if output == "name":
        print_objects([(_resource_of(obj), obj) for obj in objects], "name", single=False)
    elif objects:
        whole = objects[0] if len(objects) == 1 else {"apiVersion": "v1", "kind": "List", "items": objects}
        echo((to_json(whole) if output == "json" else to_yaml(whole)).rstrip("\n"))
    return failed


def _resource_of(obj: Any) -> Resource:
    kind = obj["kind"]
    return BY_KIND.get(kind) or Resource(kind, f"{kind.lower()}s", group=obj["apiVersion"])


def _label(kind: str, name: str) -> str:
    resource = BY_KIND.get(kind)
    if resource is None or "/" not in resource.group:
        return f"{kind.lower()}/{name}"
    return f"{resource.singular}.{resource.group.split('/')[0]}/{name}"


@click.command()
@click.argument(
    "arguments", nargs=-1, metavar="[TYPE NAME... | TYPE/NAME...]", shell_complete=complete_targets
)
@file_option(required=False)
@namespace_option()
@click.option("-R", "--recursive", is_flag=True, help="Directories below too.")
@click.option("--dry-run", type=click.Choice(["none", "server"]), default="none", help="server: only ask.")
@click.option("--ignore-not-found", is_flag=True, help="What does not exist is no error.")
@click.pass_context
def delete(
    ctx: click.Context,
    arguments: tuple[str, ...],
    filenames: tuple[str, ...],
    namespace: str,
    recursive: bool,
    dry_run: str,
    ignore_not_found: bool,
) -> None:
    """Delete objects: by name, or those that manifests name.

    A cluster queue whose quota is in use, or a flavor or check that a queue names, is first marked as
    terminating and goes when its last user has gone. Deleting a job stops it.

    \b
    Examples:
      sluice delete -f queues.yaml
      sluice delete cq team-a team-b
      sluice delete job/train lq/team-a
    """
    if bool(arguments) == bool(filenames):
        raise CliError(
            "say what to delete: TYPE NAME..., or -f FILE", hint="sluice delete cq team-a", exit_code=2
        )
    references = (
        _from_files(with_own_jobs(ctx, read(filenames, recursive=recursive)), namespace)
        if filenames
        else with_registered(ctx, lambda: _from_arguments(arguments, namespace))
    )
    jobs = [reference for reference in references if reference.kind == "Job"]
    # Users go before what they use: a local queue before its cluster queue before its flavors.
    config = sorted(
        (reference for reference in references if reference.kind != "Job"),
        key=lambda reference: -order(reference.kind),
    )

    async def work(api: Api) -> int:
        failed = 0
        if jobs:
            failed += await delete_jobs(
                api, jobs, dry_run=dry_run == "server", ignore_not_found=ignore_not_found
            )
        if config:
            request = DeleteRequest(objects=config, namespace=namespace, dry_run=dry_run == "server")
            results = (await api.delete(request)).results
            if ignore_not_found:
                results = [r for r in results if r.status is None or r.status.reason != "NotFound"]
            failed += show_results(results, None, dry_run=dry_run == "server")
        return failed

    if failed := run(ctx, work):
        raise CliError(f"{plural(failed, 'object')} not deleted")


def _from_files(sources: Sequence[ManifestFile], namespace: str) -> list[Reference]:
    return [
        Reference(
            kind="Job" if source.is_job else source.kind,
            name=source.manifest_name,
            namespace=source.manifest_namespace or namespace,
        )
        for source in sources
    ]


def _from_arguments(arguments: Sequence[str], namespace: str) -> list[Reference]:
    if all("/" in argument for argument in arguments):
        pairs = [argument.split("/", 1) for argument in arguments]
    else:
        pairs = [[arguments[0], name] for name in arguments[1:]]
    if not pairs:
        raise CliError(
            f"say which {arguments[0]} to delete", hint=f"sluice delete {arguments[0]} NAME", exit_code=2
        )
    references = []
    for word, name in pairs:
        resource = resource_named(word)
        if "delete" not in resource.verbs and resource.kind != "Job":
            hint = "Delete the job: its workload goes with it." if resource.kind == "Workload" else ""
            raise CliError(f"a {resource.singular} cannot be deleted", hint=hint)
        references.append(
            Reference(kind=resource.kind, name=name, namespace=namespace if resource.namespaced else "")
        )
    return references
