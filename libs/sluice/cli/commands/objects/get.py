"""`sluice get` and `sluice api-resources`."""

from collections.abc import Sequence

import click

from sluice.cli.cell.client import Api, run
from sluice.cli.cell.custom_kinds import registered_kinds, with_registered
from sluice.cli.cell.live_status import add_live
from sluice.cli.cell.lookup import not_found
from sluice.cli.cell.name_completion import complete_targets
from sluice.cli.cell.selectors import all_namespaces_option, namespace_option, parse_targets, selector_option
from sluice.cli.kit.errors import EXIT_UNAVAILABLE, CliError
from sluice.cli.kit.get_options import Asked
from sluice.cli.kit.output import (
    custom_columns,
    field_of,
    output_option,
    prefixed,
    print_objects,
    table_lines,
)
from sluice.cli.kit.resources import JOB_RESOURCES, RESOURCES, Resource
from sluice.cli.kit.table import Column, Object, render
from sluice.cli.kit.terminal import echo

from .watch import watch_objects


@click.command()
@click.argument(
    "arguments", nargs=-1, metavar="TYPE[,TYPE] [NAME...] | TYPE/NAME...", shell_complete=complete_targets
)
@namespace_option()
@all_namespaces_option()
@selector_option()
@output_option()
@click.option("-w", "--watch", is_flag=True, help="Go on and print each change.")
@click.option("--watch-only", is_flag=True, help="Print changes only.")
@click.option("--field-selector", default="", metavar="FIELDS", help="Fields, e.g. status.phase=Pending.")
@click.option(
    "--sort-by", default="", metavar="PATH", help="Sort by a field, e.g. {.metadata.creationTimestamp}."
)
@click.option("--no-headers", is_flag=True, help="Leave the titles out.")
@click.option("--show-labels", is_flag=True, help="Labels as the last column.")
@click.option("--ignore-not-found", is_flag=True, help="Nothing found is no error.")
@click.pass_context
def get(
    ctx: click.Context,
    arguments: tuple[str, ...],
    namespace: str,
    all_namespaces: bool,
    selector: str,
    output: str,
    watch: bool,
    watch_only: bool,
    field_selector: str,
    sort_by: str,
    no_headers: bool,
    show_labels: bool,
    ignore_not_found: bool,
) -> None:
    """List objects, or show some by name.

    Pending jobs and workloads show their place in the queue (POSITION, 1 is next) and why they wait.

    \b
    Examples:
      sluice get jobs                       jobs of the default namespace
      sluice get wl -A -o wide              workloads of all namespaces, all columns
      sluice get cq,lq                      cluster queues and local queues
      sluice get cq team-a -o yaml          one object, whole
      sluice get jobs -l team=a --watch     go on as things change, places in the queue too
      sluice get job/train -o '{.status.phase}'
      sluice get jobs -o custom-columns=NAME:.metadata.name,PODS:.status.podSets[*].count
    """
    targets = with_registered(ctx, lambda: parse_targets(arguments))
    asked = Asked(
        namespace="" if all_namespaces else namespace,
        all_namespaces=all_namespaces,
        selector=selector,
        field_selector=field_selector,
        output=output,
        header=not no_headers,
        labels=show_labels,
        sort_by=sort_by,
        ignore_not_found=ignore_not_found,
    )
    if (watch or watch_only) and len(targets) != 1:
        raise CliError("watch takes one type", hint="For example: `sluice get jobs --watch`.", exit_code=2)

    async def work(api: Api) -> None:
        if watch or watch_only:
            await watch_objects(api, asked, *targets[0], first=not watch_only)
        else:
            await _View(asked).show(api, targets)

    run(ctx, work)


class _View:
    """One `get`: fetches and shows what was asked for."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked

    async def show(self, api: Api, targets: Sequence[tuple[Resource, list[str]]]) -> None:
        found: list[tuple[Resource, list[Object]]] = []
        missing: list[CliError] = []
        single = False
        for resource, names in targets:
            items, errors = await self._find(api, resource, names)
            found.append((resource, items))
            missing += errors
            single = single or len(names) == 1
        if self.asked.is_custom:
            self._own_columns([obj for _, items in found for obj in items], empty=not missing)
        elif not self.asked.is_table:
            pairs = [(resource, obj) for resource, items in found for obj in items]
            print_objects(pairs, self.asked.output, single=single)
        else:
            self._tables(found, empty=not missing)
        if missing and not self.asked.ignore_not_found:
            for error in missing[:-1]:
                error.show()
            raise missing[-1]

    def _own_columns(self, items: Sequence[Object], *, empty: bool) -> None:
        """Print one table, also of several kinds, as kubectl does."""
        if items:
            echo("\n".join(render(items, custom_columns(self.asked.output), header=self.asked.header)))
        elif empty:
            echo("No resources found.", err=True)

    def _tables(self, found: Sequence[tuple[Resource, list[Object]]], *, empty: bool) -> None:
        shown = [(resource, items) for resource, items in found if items]
        for number, (resource, items) in enumerate(shown):
            if number:
                echo()
            styled = prefixed(resource) if len(found) > 1 else resource
            lines = table_lines(
                styled,
                items,
                wide=self.asked.output == "wide",
                all_namespaces=self.asked.all_namespaces,
                labels=self.asked.labels,
                header=self.asked.header,
            )
            echo("\n".join(lines))
        if not shown and empty:
            resource = found[0][0]
            where = (
                f" in {self.asked.namespace} namespace"
                if resource.namespaced and self.asked.namespace
                else ""
            )
            echo(f"No resources found{where}.", err=True)

    async def _find(
        self, api: Api, resource: Resource, names: Sequence[str]
    ) -> tuple[list[Object], list[CliError]]:
        if not names:
            items = (await api.list(self.asked.list_request(resource))).items
            await add_live(api, items)
            return self._sorted(items), []
        if self.asked.all_namespaces and resource.namespaced:
            raise CliError("a name needs one namespace", hint="Leave out -A, or say -n.", exit_code=2)
        items = []
        errors: list[CliError] = []
        for name in names:
            found = (await api.list(self.asked.list_request(resource, name))).items
            if found:
                items += found
            else:
                errors.append(await not_found(api, resource, name, self.asked.namespace))
        await add_live(api, items)
        return items, errors

    def _sorted(self, items: list[Object]) -> list[Object]:
        if not self.asked.sort_by:
            return items
        path = self.asked.sort_by if self.asked.sort_by.startswith("{") else f"{{{self.asked.sort_by}}}"
        return sorted(items, key=lambda obj: _sort_key(field_of(obj, path)))


def _sort_key(text: str) -> tuple[int, float, str]:
    try:
        return (0, float(text), "")
    except ValueError:
        return (1, 0.0, text)


@click.command("api-resources")
@click.pass_context
def api_resources(ctx: click.Context) -> None:
    """List the kinds of objects, their short names, and what can be done with them.

    Kinds that teams have registered come last; they are left out when no cell answers.
    """
    registered: list[Resource] = []
    try:
        registered = registered_kinds(ctx)
    except CliError as error:
        if error.code != EXIT_UNAVAILABLE:
            raise
        echo(f"Kinds that teams have registered are left out: {error.message}", err=True)
    columns = [
        Column[Resource]("NAME", lambda r: r.plural),
        Column[Resource]("SHORTNAMES", lambda r: ",".join(r.short)),
        Column[Resource]("APIVERSION", lambda r: r.group),
        Column[Resource]("NAMESPACED", lambda r: str(r.namespaced).lower()),
        Column[Resource]("KIND", lambda r: r.only or r.kind),
        Column[Resource]("VERBS", lambda r: r.verbs),
    ]
    echo("\n".join(render([*RESOURCES, *JOB_RESOURCES, *registered], columns)))
