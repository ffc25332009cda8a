"""`sluice get --watch`: the objects, then each change as it comes."""

import asyncio
import sys
import time
from collections.abc import Sequence

from sluice.cli.cell.client import Api
from sluice.cli.cell.live_status import add_live
from sluice.cli.kit.columns import dig, key
from sluice.cli.kit.get_options import Asked
from sluice.cli.kit.output import columns_of, custom_columns, print_objects
from sluice.cli.kit.resources import Resource
from sluice.cli.kit.table import Column, Object, column_widths, render
from sluice.cli.kit.terminal import echo
from sluice.protocol.query import WatchAnswer

PLACES = 20
"""Of those who wait, so many of each queue are told when others leave or come before them."""
PLACES_EVERY_S = 1.0


async def watch_objects(
    api: Api, asked: Asked, resource: Resource, names: Sequence[str], *, first: bool
) -> None:
    """Print the objects (unless not *first*), then each change, until interrupted."""
    wanted = set(names)
    name = names[0] if len(names) == 1 else ""
    printer = _Printer(asked, resource)

    def show(items: Sequence[Object]) -> None:
        printer.show([obj for obj in items if not wanted or obj["metadata"]["name"] in wanted])

    answer = await api.list(asked.list_request(resource, name))
    await add_live(api, answer.items)
    if first:
        show(answer.items)
    else:
        printer.remember(answer.items)
    seq = answer.seq
    places = PLACES if asked.is_table and resource.kind in ("Job", "Workload") else 0
    while True:
        asked_at = time.monotonic()
        changes = await api.watch(asked.watch_request(resource, seq, name, places))
        seq = changes.seq
        if changes.reset:
            answer = await api.list(asked.list_request(resource, name))
            seq = answer.seq
            changes = WatchAnswer(seq=seq, items=answer.items)
        await add_live(api, changes.items)
        show(changes.items)
        for gone in changes.deleted:
            if not wanted or gone.name in wanted:
                printer.gone(gone.name, gone.namespace)
        if places and printer.waiting:
            # Places shift with every job that leaves; each shift a line would be too many.
            await asyncio.sleep(max(0.0, asked_at + PLACES_EVERY_S - time.monotonic()))


_CLOCKS = ("AGE", "DURATION", "WAITED")


class _Printer:
    """Prints rows one below the other, with columns that only grow."""

    def __init__(self, asked: Asked, resource: Resource) -> None:
        self.asked, self.resource = asked, resource
        columns = (
            custom_columns(asked.output)
            if asked.is_custom
            else columns_of(resource, all_namespaces=asked.all_namespaces, labels=asked.labels)
        )
        self.shown: list[Column[Object]] = [c for c in columns if asked.output == "wide" or not c.wide]
        self.widths: list[int] = []
        self.header = asked.header
        self.rows: dict[str, list[str]] = {}
        """Key -> what was printed last, but for clocks."""
        self.waiting: dict[str, None] = {}
        """Keys of those that have a place in a queue."""

    def remember(self, items: Sequence[Object]) -> None:
        """Note the rows of objects that are not printed."""
        for obj in items:
            self._is_news(obj)

    def _is_news(self, obj: Object) -> bool:
        """Tell whether the row says something new; not all that changes of an object is shown."""
        name = key(obj)
        if dig(obj, "status", "queuePosition", default=None) is None:
            self.waiting.pop(name, None)
        else:
            self.waiting[name] = None
        before = self.rows.get(name)
        self.rows[name] = [column.text(obj) for column in self.shown if column.title not in _CLOCKS]
        return before != self.rows[name]

    def show(self, items: Sequence[Object]) -> None:
        if not self.asked.is_table:
            for obj in items:
                print_objects([(self.resource, obj)], self.asked.output, single=True)
        elif rows := [obj for obj in items if self._is_news(obj)]:
            cells = [[column.text(obj) for column in self.shown] for obj in rows]
            titles = [[column.title for column in self.shown]]
            self.widths = column_widths(titles + cells, len(self.shown), self.widths)
            lines = render(rows, self.shown, wide=True, header=self.header, minimum=self.widths)
            self.header = False
            echo("\n".join(lines))
        sys.stdout.flush()

    def gone(self, name: str, namespace: str) -> None:
        gone = f"{namespace}/{name}" if namespace else name
        self.waiting.pop(gone, None)
        self.rows.pop(gone, None)
        where = f"{namespace}/{name}" if namespace and self.asked.all_namespaces else name
        echo(f"{where} deleted")
        sys.stdout.flush()
