"""The tables of docs/from-kueue.md that come from the code: `python -m tests.unit.docs.from_kueue_page`.

It puts them into the page, between their marks.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import inspect

from sluice.api import kueue
from sluice.api.kueue_config.table import FIELDS, NEW, OLD, Field, How
from sluice.api.mapped import MappedKind, PodSetRule
from sluice.api.mapped.table import KINDS
from sluice.api.unsupported import INSTEAD

PAGE = Path(__file__).resolve().parents[3] / "docs" / "from-kueue.md"
SOURCE = "https://github.com/kubernetes-sigs/kueue/blob/main/pkg/controller/jobs"

OBJECTS = (
    kueue.ClusterQueue,
    kueue.LocalQueue,
    kueue.Cohort,
    kueue.ResourceFlavor,
    kueue.AdmissionCheck,
    kueue.WorkloadPriorityClass,
    kueue.MultiKueueCluster,
    kueue.MultiKueueConfig,
    kueue.Topology,
)
"""Kueue's kinds whose fields the page has one by one."""

_SHARED = ("ObjectMeta", "PodTemplateSpec", "Taint", "Toleration", "LabelSelector")


def fields(kind: type) -> list[str]:
    """Return the paths of all fields of a kind that mean something by themselves."""
    found: list[str] = []
    _walk(inspect.type_info(kind), "", found)
    return found


def _walk(kind: inspect.Type, path: str, found: list[str]) -> None:
    match kind:
        case inspect.UnionType(types=members):
            for member in members:
                _walk(member, path, found)
        case inspect.ListType(item_type=item):
            _walk(item, path, found)
        case inspect.StructType(cls=cls) if cls.__name__ not in _SHARED:
            for field in kind.fields:
                if field.encode_name not in ("apiVersion", "kind", "metadata", "status"):
                    inner = f"{path}.{field.encode_name}".lstrip(".")
                    if inner != "spec":
                        found.append(inner)
                    _walk(field.type, inner, found)


def _pods(kind: MappedKind) -> str:
    return kind.pods or "; ".join(_set(rule) for rule in kind.mapping.pod_sets)


def _set(rule: PodSetRule) -> str:
    name = f"`{rule.name}`" if rule.name else f"each of {rule.each}, by its {rule.name_from}"
    if not rule.count and not rule.times:
        return f"{name}: {rule.otherwise}"
    count = " x ".join(rule.count) or str(rule.otherwise)
    less = f" - {rule.fewer}" if rule.fewer else ""
    times = "".join(f" x {path}" for path in rule.times)
    return f"{name}: ({count}{less}){times}" if less else f"{name}: {count}{times}"


def _notes(kind: MappedKind) -> str:
    found = [kind.differs] if kind.differs else []
    found += [f"`{path}`: no effect, with a warning ({why})" for path, why in kind.no_effect]
    found += [f"`{path}`: refused if true ({why})" for path, why in kind.refused]
    return "; ".join(found)


def _kinds() -> Iterator[str]:
    yield "| kind | pod sets, and how many pods each has | as in Kueue's | differs |"
    yield "|---|---|---|---|"
    for kind in KINDS:
        link = f"[{kind.source.rpartition('/')[2]}]({SOURCE}/{kind.source})"
        yield f"| `{kind.kind}` ({kind.api_version}) | {_pods(kind)} | {link} | {_notes(kind)} |"


def _refused() -> Iterator[str]:
    yield "| kind | instead |"
    yield "|---|---|"
    whats: dict[str, list[str]] = {}
    for (_, name), instead in INSTEAD.items():
        whats.setdefault(instead, []).append(f"`{name}`")
    yield from (f"| {', '.join(names)} | {instead} |" for instead, names in whats.items())


def _manager() -> Iterator[str]:
    yield "| field | here | more |"
    yield "|---|---|---|"
    rows: dict[tuple[str, How, str], list[Field]] = {}
    for field in FIELDS:
        # Fields of a block that go the same way share a row.
        block = field.path if field.to else field.path.partition(".")[0]
        rows.setdefault((block, field.how, field.said), []).append(field)
    for (_, how, said), fields in rows.items():
        yield f"| {', '.join(map(_named, fields))} | {how.value} | {_where(fields[0], said)} |"


def _named(field: Field) -> str:
    both = OLD in field.versions and NEW in field.versions
    return f"`{field.path}`" if both else f"`{field.path}` ({field.versions[0].rpartition('/')[2]})"


def _where(field: Field, said: str) -> str:
    """What is said, after the place that the value has got; pages are linked from where the table stands."""
    place = f"`{field.to}`" if field.to and field.to != field.path else ""
    linked = re.sub(r"docs/(([\w-]+)\.md)", r"[\2](\1)", said)
    return "; ".join(part for part in (place, linked) if part)


TABLES = {"kinds": _kinds, "refused": _refused, "manager": _manager}


def tables() -> dict[str, str]:
    """Return the tables as they must stand between their marks."""
    return {name: "\n".join(["", *lines(), "", ""]) for name, lines in TABLES.items()}


def written(text: str, name: str) -> tuple[int, int]:
    """Return where a table stands in the page."""
    begin = f"<!-- {name}: from the code -->\n"
    start = text.index(begin) + len(begin)
    return start, text.index(f"<!-- end of {name} -->", start)


if __name__ == "__main__":
    page = PAGE.read_text()
    for title, table in tables().items():
        here, end = written(page, title)
        page = page[:here] + table + page[end:]
    PAGE.write_text(page)
