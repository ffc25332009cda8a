"""`sluice get` and `sluice api-resources`."""

import sys
from collections.abc import Sequence

import click

from sluice.events.query import ListRequest, WatchAnswer, WatchRequest

from .client import Api, run
from .errors import CliError
from .output import columns_of, output_option, prefixed, print_objects, table_lines
from .resources import RESOURCES, Resource, key
from .selectors import (
    all_namespaces_option,
    complete_types,
    namespace_option,
    parse_targets,
    selector_option,
)
from .suggest import did_you_mean
from .table import Column, Object, column_widths, render


@click.command()
@click.argument(
    "arguments", nargs=-1, metavar="TYPE[,TYPE] [NAME...] | TYPE/NAME...", shell_complete=complete_types
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
      sluice get jobs -l team=a --watch     go on as things change
      sluice get job/train -o '{.status.phase}'
    """
    targets = parse_targets(arguments)
    view = _View(
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
            await view.watch(api, *targets[0], first=not watch_only)
        else:
            await view.show(api, targets)

    run(ctx, work)


class _View:
    """One `get`: what was asked for, and how to show it."""

    def __init__(
        self,
        *,
        namespace: str,
        all_namespaces: bool,
        selector: str,
        field_selector: str,
        output: str,
        header: bool,
        labels: bool,
        sort_by: str,
        ignore_not_found: bool,
    ) -> None:
        self.namespace, self.all_namespaces = namespace, all_namespaces
        self.selector, self.field_selector = selector, field_selector
        self.output, self.header, self.labels, self.sort_by = output, header, labels, sort_by
        self.ignore_not_found = ignore_not_found

    async def show(self, api: Api, targets: Sequence[tuple[Resource, list[str]]]) -> None:
        found: list[tuple[Resource, list[Object]]] = []
        missing: list[CliError] = []
        single = False
        for resource, names in targets:
            items, errors = await self._find(api, resource, names)
            found.append((resource, items))
            missing += errors
            single = single or len(names) == 1
        if self.output not in ("table", "wide"):
            pairs = [(resource, obj) for resource, items in found for obj in items]
            print_objects(pairs, self.output, single=single)
        else:
            self._tables(found, empty=not missing)
        if missing and not self.ignore_not_found:
            for error in missing[:-1]:
                error.show()
            raise missing[-1]

    def _tables(self, found: Sequence[tuple[Resource, list[Object]]], *, empty: bool) -> None:
        shown = [(resource, items) for resource, items in found if items]
        for number, (resource, items) in enumerate(shown):
            if number:
                click.echo()
            styled = prefixed(resource) if len(found) > 1 else resource
            lines = table_lines(
                styled,
                items,
                wide=self.output == "wide",
                all_namespaces=self.all_namespaces,
                labels=self.labels,
                header=self.header,
            )
            click.echo("\n".join(lines))
        if not shown and empty:
            resource = found[0][0]
            where = f" in {self.namespace} namespace" if resource.namespaced and self.namespace else ""
            click.echo(f"No resources found{where}.", err=True)

    def _request(self, resource: Resource, name: str = "") -> ListRequest:
        return ListRequest(
            kind=resource.kind,
            name=name,
            namespace=self.namespace if resource.namespaced else "",
            label_selector=self.selector,
            field_selector=self.field_selector,
        )

    async def _find(
        self, api: Api, resource: Resource, names: Sequence[str]
    ) -> tuple[list[Object], list[CliError]]:
        if not names:
            return self._sorted((await api.list(self._request(resource))).items), []
        if self.all_namespaces and resource.namespaced:
            raise CliError("a name needs one namespace", hint="Leave out -A, or say -n.", exit_code=2)
        items: list[Object] = []
        errors: list[CliError] = []
        for name in names:
            found = (await api.list(self._request(resource, name))).items
            if found:
                items += found
            else:
                errors.append(await not_found(api, resource, name, self.namespace))
        return items, errors

    def _sorted(self, items: list[Object]) -> list[Object]:
        if not self.sort_by:
            return items
        from .output import field_of

        path = self.sort_by if self.sort_by.startswith("{") else f"{{{self.sort_by}}}"
        return sorted(items, key=lambda obj: _sort_key(field_of(obj, path)))

    async def watch(self, api: Api, resource: Resource, names: Sequence[str], *, first: bool) -> None:
        """Print the objects, then each change, until interrupted."""
        answer = await api.list(self._request(resource, names[0] if len(names) == 1 else ""))
        wanted = set(names)
        printer = _WatchPrinter(self, resource)
        if first:
            printer.show([obj for obj in answer.items if not wanted or obj["metadata"]["name"] in wanted])
        seq = answer.seq
        while True:
            changes = await api.watch(
                WatchRequest(
                    kind=resource.kind,
                    since=seq,
                    namespace=self.namespace if resource.namespaced else "",
                    name=names[0] if len(names) == 1 else "",
                    label_selector=self.selector,
                    field_selector=self.field_selector,
                )
            )
            seq = changes.seq
            if changes.reset:
                answer = await api.list(self._request(resource, names[0] if len(names) == 1 else ""))
                seq = answer.seq
                changes = WatchAnswer(seq=seq, items=answer.items)
            printer.show([obj for obj in changes.items if not wanted or obj["metadata"]["name"] in wanted])
            for gone in changes.deleted:
                if not wanted or gone.name in wanted:
                    printer.gone(gone.name, gone.namespace)


class _WatchPrinter:
    """Prints rows one below the other, with columns that only grow."""

    def __init__(self, view: _View, resource: Resource) -> None:
        self.view, self.resource = view, resource
        self.columns = columns_of(resource, all_namespaces=view.all_namespaces, labels=view.labels)
        self.shown: list[Column[Object]] = [c for c in self.columns if view.output == "wide" or not c.wide]
        self.widths: list[int] = []
        self.header = view.header

    def show(self, items: Sequence[Object]) -> None:
        if not items:
            return
        if self.view.output not in ("table", "wide"):
            for obj in items:
                print_objects([(self.resource, obj)], self.view.output, single=True)
        else:
            cells = [[column.text(obj) for column in self.shown] for obj in items]
            titles = [[column.title for column in self.shown]]
            self.widths = column_widths(titles + cells, len(self.shown), self.widths)
            lines = render(items, self.shown, wide=True, header=self.header, minimum=self.widths)
            self.header = False
            click.echo("\n".join(lines))
        sys.stdout.flush()

    def gone(self, name: str, namespace: str) -> None:
        where = f"{namespace}/{name}" if namespace and self.view.all_namespaces else name
        click.echo(f"{where} deleted")
        sys.stdout.flush()


def _sort_key(text: str) -> tuple[int, float, str]:
    try:
        return (0, float(text), "")
    except ValueError:
        return (1, 0.0, text)


async def not_found(api: Api, resource: Resource, name: str, namespace: str) -> CliError:
    """Return the error for a missing object, with the nearest name that exists."""
    near = await api.list(
        ListRequest(kind=resource.kind, namespace=namespace if resource.namespaced else "", limit=500)
    )
    hint = did_you_mean(name, [obj["metadata"]["name"] for obj in near.items]).strip()
    if not hint and resource.namespaced:
        elsewhere = await api.list(ListRequest(kind=resource.kind, name=name))
        if elsewhere.items:
            hint = (
                f"There is {key(elsewhere.items[0])}: use -n {elsewhere.items[0]['metadata']['namespace']}."
            )
    group = resource.group.split("/")[0] if "/" in resource.group else ""
    plural = f"{resource.plural}.{group}" if group else resource.plural
    return CliError(f'Error from server (NotFound): {plural} "{name}" not found', hint=hint)


@click.command("api-resources")
def api_resources() -> None:
    """List the kinds of objects, their short names, and what can be done with them."""
    columns = [
        Column[Resource]("NAME", lambda r: r.plural),
        Column[Resource]("SHORTNAMES", lambda r: ",".join(r.short)),
        Column[Resource]("APIVERSION", lambda r: r.group),
        Column[Resource]("NAMESPACED", lambda r: str(r.namespaced).lower()),
        Column[Resource]("KIND", lambda r: r.kind),
        Column[Resource]("VERBS", lambda r: r.verbs),
    ]
    click.echo("\n".join(render(RESOURCES, columns)))
