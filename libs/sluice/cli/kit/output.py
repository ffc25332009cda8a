"""Prints objects as `-o` asks: table, wide, json, yaml, name, one field, or columns of the user's own."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import click
import msgspec

from .columns import labels_text, name, namespace
from .errors import CliError
from .field_paths import Step, steps_of, text_of, values_at
from .options import Decorator
from .resources import Resource
from .table import Column, Object, render
from .terminal import echo

CUSTOM = "custom-columns="
FORMATS = ("table", "wide", "json", "yaml", "name")


def output_option() -> Decorator:
    """`-o`."""
    return click.option(
        "-o",
        "--output",
        default="table",
        metavar="FORMAT",
        help="table, wide, json, yaml, name, {.status.phase}, or custom-columns=NAME:.metadata.name,...",
        callback=_check_format,
    )


def _check_format(_: click.Context, __: click.Parameter, value: str) -> str:
    bare = value.removeprefix("jsonpath=")
    if value in FORMATS:
        return value
    if is_custom(value):
        custom_columns(value)
        return value
    if bare.startswith("{") and bare.endswith("}"):
        steps_of(bare)
        return bare
    raise click.BadParameter(
        f"{value!r}: want one of {', '.join(FORMATS)}, {{.path.to.field}}, or {CUSTOM}NAME:.path.to.field,..."
    )


def is_custom(output: str) -> bool:
    """Tell whether columns of the user's own are asked for."""
    return output.startswith(CUSTOM)


def custom_columns(output: str) -> list[Column[Object]]:
    """Return the columns of `custom-columns=NAME:.path,...`; what is absent reads `<none>`, as in kubectl.

    Raises:
        CliError: it cannot be read.
    """
    found = []
    for part in output.removeprefix(CUSTOM).split(","):
        title, colon, path = part.partition(":")
        if not (title and colon and path):
            raise CliError(
                f"{part!r}: not NAME:.path.to.field",
                hint=f"For example: -o {CUSTOM}NAME:.metadata.name,WHY:.status.reason",
                exit_code=2,
            )
        found.append(Column[Object](title, partial(_cell, steps=steps_of(path))))
    return found


def _cell(obj: Object, steps: tuple[Step, ...]) -> str:
    return ",".join(map(text_of, values_at(obj, steps))) or "<none>"


def to_yaml(value: Any) -> str:
    """Return *value* as YAML, keys in their own order."""
    import yaml

    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120))


def to_json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=4).decode()


def columns_of(
    resource: Resource, *, all_namespaces: bool = False, labels: bool = False
) -> list[Column[Object]]:
    """Return the table's columns, with NAMESPACE in front and LABELS behind when asked for."""
    columns = list(resource.columns)
    if all_namespaces and resource.namespaced:
        columns.insert(0, Column("NAMESPACE", namespace))
    if labels:
        columns.append(Column("LABELS", labels_text))
    return columns


def table_lines(
    resource: Resource,
    items: Sequence[Object],
    *,
    wide: bool = False,
    all_namespaces: bool = False,
    labels: bool = False,
    header: bool = True,
) -> list[str]:
    """Return the lines of a resource's table."""
    columns = columns_of(resource, all_namespaces=all_namespaces, labels=labels)
    return render(items, columns, wide=wide, header=header)


def prefixed(resource: Resource) -> Resource:
    """Return *resource* with `kind/name` in the first column, for tables of several kinds."""
    first = resource.columns[0]
    named = replace(first, text=lambda obj: f"{resource.singular}/{first.text(obj)}")
    return replace(resource, columns=(named, *resource.columns[1:]))


def field_of(obj: Object, path: str) -> str:
    """Return one field of an object, `{.status.conditions[0].type}`; empty when absent.

    Several values, of `[*]`, have blanks between them.

    Raises:
        CliError: the path cannot be read.
    """
    return " ".join(map(text_of, values_at(obj, steps_of(path))))


def print_objects(pairs: Sequence[tuple[Resource, Object]], output: str, *, single: bool) -> None:
    """Print objects in a format that is not a table; *single* leaves out the List around them."""
    if output == "name":
        for resource, obj in pairs:
            group = resource.group.split("/")[0] if "/" in resource.group else ""
            echo(f"{resource.singular}{'.' + group if group else ''}/{name(obj)}")
    elif output in ("json", "yaml"):
        items = [obj for _, obj in pairs]
        value: Any = items[0] if single and len(items) == 1 else _as_list(items)
        echo(to_json(value) if output == "json" else to_yaml(value).rstrip("\n"))
    else:
        for _, obj in pairs:
            echo(field_of(obj, output))


def _as_list(items: Sequence[Object]) -> Object:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}
