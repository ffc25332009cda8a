"""Multi-document YAML to manifests, with the document and line of what is wrong.

Scalars follow YAML 1.2, as users mean them: only `true` and `false` are booleans (`on`, `no` and `y`
stay text), dates and times stay text, and so does `12:30`. A key that occurs twice is an error.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import yaml

from .decode import DecodeError, decode_object, describe
from .errors import FieldError, unreadable
from .meta import Manifest
from .validation.everything import all_errors

__all__ = [
    "MAX_BYTES",
    "MAX_NODES",
    "Document",
    "YamlTextError",
    "decode_yaml",
    "manifests",
    "plain_documents",
]

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BOOL, _NULL, _INT, _FLOAT = (f"tag:yaml.org,2002:{name}" for name in ("bool", "null", "int", "float"))
_MERGE = "tag:yaml.org,2002:merge"
_STEP = re.compile(r"\[([^\]]*)\]|([^.\[]+)")
MAX_NODES = 200_000
"""Nodes of one document after aliases are expanded; more is refused."""
MAX_BYTES = 64 * 1024 * 1024
"""Of all documents of a text; more is refused before it is looked at."""
_MAX_LEVELS = 128
"""Levels of one document; decoding refuses more than half of them with the document's name."""


class YamlTextError(ValueError):
    """A text that cannot be read as YAML, and the line where that shows."""

    def __init__(self, detail: str, line: int = 1) -> None:
        super().__init__(f"line {line}: {detail}")
        self.detail, self.line = detail, line


class _Loader(_Base):  # type: ignore[misc]
    """The safe loader with YAML 1.2 scalars and without duplicate keys."""

    yaml_implicit_resolvers: dict[Any, Any] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        if isinstance(node, yaml.MappingNode):
            self.flatten_mapping(node)
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is None:
                raise yaml.constructor.ConstructorError(
                    None, None, "keys must be plain text", key_node.start_mark
                )
            mapping[key] = self.construct_object(value_node, deep=deep)
        return mapping


def _resolve(tag: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(tag, re.compile(pattern), list(first))


_resolve(_BOOL, r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF")
_resolve(_NULL, r"^(?:~|null|Null|NULL|)$", "~nN")
_Loader.add_implicit_resolver(_NULL, re.compile(r"^$"), [""])
_resolve(_INT, r"^(?:[-+]?(?:0|[1-9][0-9]*)|0o?[0-7]+|0x[0-9a-fA-F]+)$", "-+0123456789")
_resolve(
    _FLOAT, r"^[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)$", "-+.0123456789"
)
_resolve(_MERGE, r"^<<$", "<")


def _construct_int(loader: Any, node: Any) -> int:
    text = str(loader.construct_scalar(node))
    digits = text.lstrip("+-").lower()
    if digits.startswith("0x"):
        return int(digits, 16)
    if len(digits) > 1 and digits.startswith("0"):
        return int(digits.removeprefix("0o"), 8)
    return int(text)


def _construct_float(loader: Any, node: Any) -> float:
    return float(loader.construct_scalar(node))


def _construct_bool(loader: Any, node: Any) -> bool:
    return str(loader.construct_scalar(node)).lower() == "true"


_Loader.add_constructor(_INT, _construct_int)
_Loader.add_constructor(_FLOAT, _construct_float)
_Loader.add_constructor(_BOOL, _construct_bool)


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file: `manifest`, or why there is none.

    `index` counts documents from 1, `line` is where it starts; `lines` are those of the errors.
    """

    index: int
    line: int
    manifest: Manifest | None
    errors: tuple[FieldError, ...] = ()
    lines: tuple[int, ...] = ()
    what: str = "manifest"
    written: Any = None
    """What stands there, in the spelling of its author."""

    def problems(self, source: str = "") -> list[str]:
        """Return one line of text per error: `file.yaml:12: ClusterQueue "a": spec.x: Unknown field`."""
        prefix = f"{source}:" if source else "line "
        return [
            f"{prefix}{line}: document {self.index}: {self.what}: {error}"
            for error, line in zip(self.errors, self.lines, strict=True)
        ]


def decode_yaml(text: str | bytes) -> list[Document]:
    """Decode every document of *text* (JSON is YAML too); empty ones are skipped, `List`s are opened.

    Never raises: what cannot be read is a Document with errors. After a syntax error nothing more can
    be read, so that document is the last.

    >>> (found,) = decode_yaml("apiVersion: kueue.x-k8s.io/v1beta2\\nkind: Cohort\\nspec: {parent: all}")
    >>> print(*found.problems("cohorts.yaml"), sep="\\n")
    cohorts.yaml:3: document 1: Cohort: spec.parent: Unknown field: did you mean "parentName"?
    cohorts.yaml:1: document 1: Cohort: metadata.name: Required value: name or generateName is required
    """
    return list(_documents(text))


def manifests(text: str | bytes, source: str = "") -> list[Manifest]:
    """Decode every document of *text*.

    >>> (cohort,) = manifests("{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: all}}")
    >>> cohort.metadata.name
    'all'

    Raises:
        DecodeError: any of them is wrong; all errors of all documents are in it, places in the details.
    """
    documents = decode_yaml(text)
    if any(document.errors for document in documents):
        lines = [line for document in documents for line in document.problems(source)]
        errors = tuple(error for document in documents for error in document.errors)
        failure = DecodeError(errors, source or "input")
        failure.args = ("\n".join(lines),)
        raise failure
    return [document.manifest for document in documents if document.manifest is not None]


def plain_documents(text: str | bytes) -> Iterator[Any]:
    """Yield the documents of *text* as plain values, empty ones left out; for what need not be a manifest.

    >>> list(plain_documents("{on: 12:30}"))
    [{'on': '12:30'}]

    Raises:
        YamlTextError: it is no YAML, too large, nested too deeply, or has a key twice.
    """
    for value, _, _, duplicates in _read(text):
        if isinstance(value, YamlTextError):
            raise value
        for error, line in duplicates:
            raise YamlTextError(str(error), line)
        yield value


def _documents(text: str | bytes, *, opened: bool = True) -> Iterator[Document]:
    for value, node, index, duplicates in _read(text):
        if isinstance(value, YamlTextError):
            yield Document(index, value.line, None, (unreadable(value.detail),), (value.line,))
        elif not opened:
            yield _decoded(value, node, index, node.start_mark.line + 1, duplicates, "")
        else:
            yield from _opened(value, node, index, node.start_mark.line + 1, duplicates)


_Read = tuple[Any, Any, int, list[tuple[FieldError, int]]]


def _read(text: str | bytes) -> Iterator[_Read]:
    """Yield value, node, number and duplicate keys of each document; an error in place of the last value."""
    index = 0
    try:
        # A composer recurses, and takes quadratic time for deep nesting: nothing deep may come to it. The
        # documents before the one that is refused are answered for.
        whole, refused = _bounded(text)
        loader = _Loader(text)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        yield _unreadable(error), None, 1, []
        return
    try:
        while refused is None or index < whole:
            try:
                if not loader.check_node():
                    return
                index += 1
                node = loader.get_node()
                _check_size(node)
                duplicates = list(islice(_duplicates(node), LINES_FOUND))
                value = loader.construct_document(node)
            except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
                yield _unreadable(error), None, index or 1, []
                return
            if value is not None:
                yield value, node, index, duplicates
        yield refused, None, index + 1, []
    finally:
        loader.dispose()


def _bounded(text: str | bytes) -> tuple[int, YamlTextError | None]:
    """Return how many documents may be composed, and why no more.

    Events come one by one, from a parser that does not recurse: it is left where a bound is passed.

    Raises:
        YamlTextError: the text is too large to be looked at.
    """
    if len(text) > MAX_BYTES:
        raise YamlTextError(f"larger than {MAX_BYTES // 1024 // 1024} MiB")
    loader = _Loader(text)
    whole = level = nodes = 0
    try:
        while loader.check_event():
            event = loader.get_event()
            if isinstance(event, yaml.CollectionStartEvent):
                level += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                level -= 1
            elif isinstance(event, yaml.DocumentStartEvent):
                nodes = 0
            elif isinstance(event, yaml.DocumentEndEvent):
                whole += 1
            nodes += isinstance(event, yaml.NodeEvent)
            if level > _MAX_LEVELS or nodes > MAX_NODES:
                what = f"nested deeper than {_MAX_LEVELS} levels" if level > _MAX_LEVELS else _TOO_MANY
                return whole, YamlTextError(what, event.start_mark.line + 1)
    except yaml.YAMLError:
        # The composer says what is wrong; it comes no further than this.
        return sys.maxsize, None
    finally:
        loader.dispose()
    return whole, None


_TOO_MANY = f"more than {MAX_NODES} values"


def _unreadable(error: Exception) -> YamlTextError:
    if isinstance(error, YamlTextError):
        return error
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    said = getattr(error, "problem", None) or str(error)
    context = getattr(error, "context", None)
    detail = f"not YAML: {said}" + (f" ({context})" if context else "")
    return YamlTextError(detail, mark.line + 1 if mark is not None else 1)


def _opened(
    value: object, node: Any, index: int, line: int, duplicates: list[tuple[FieldError, int]]
) -> Iterator[Document]:
    items = value.get("items") if isinstance(value, dict) and value.get("kind") == "List" else None
    if isinstance(items, list) and not duplicates:
        for position, item in enumerate(items):
            path = f"items[{position}]"
            if (text := _config_in(item)) is not None:
                yield from _of_config_map(text, _node_at(_node_at(node, "items"), position) or node, index)
            else:
                yield _decoded(item, node, index, _line_of(node, path), [], f"{path}.")
        return
    if not duplicates and (text := _config_in(value)) is not None:
        yield from _of_config_map(text, node, index)
        return
    yield _decoded(value, node, index, line, duplicates, "")


CONFIG_KEY = "controller_manager_config.yaml"
"""What Kueue's manager calls its Configuration in a ConfigMap."""


def _config_in(value: object) -> str | None:
    """Return the text of Kueue's own Configuration, if *value* is the ConfigMap that holds it."""
    if not isinstance(value, dict) or (value.get("apiVersion"), value.get("kind")) != ("v1", "ConfigMap"):
        return None
    data = value.get("data")
    text = data.get(CONFIG_KEY) if isinstance(data, dict) else None
    return text if isinstance(text, str) else None


def _of_config_map(text: str, node: Any, index: int) -> Iterator[Document]:
    """Yield the documents in a ConfigMap's text, by the lines of the file that it stands in."""
    held = _node_at(_node_at(node, "data"), CONFIG_KEY)
    line = int((held or node).start_mark.line) + 1
    first = line if held is not None and held.style == "|" else None

    def line_of(inner: int) -> int:
        return line if first is None else first + inner

    for document in _documents(text, opened=False):
        lines = tuple(map(line_of, document.lines))
        yield replace(document, index=index, line=line_of(document.line), lines=lines)


def _node_at(node: Any, key: str | int) -> Any:
    """Return what a node has at a key or place, None where it is not written there."""
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int):
        return node.value[key]
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((held for name, held in node.value if name.value == key), None)


def _decoded(
    value: object, node: Any, index: int, line: int, duplicates: list[tuple[FieldError, int]], prefix: str
) -> Document:
    manifest: Manifest | None = None
    problems = list(duplicates)
    try:
        manifest = decode_object(value, custom=True)
    except DecodeError as error:
        problems += [
            (found, _line_of(node, prefix + found.field) if number < LINES_FOUND else line)
            for number, found in enumerate(all_errors(error))
        ]
    if problems:
        return Document(
            index,
            line,
            None,
            tuple(error for error, _ in problems),
            tuple(place for _, place in problems),
            describe(value),
        )
    return Document(index, line, manifest, what=describe(value), written=value)


_Path = tuple[Any, str]
"""The path of what is around it, and its own step. Put together where it is said only: keys may be long."""


def _duplicates(node: Any, path: _Path | None = None, depth: int = 0) -> Iterator[tuple[FieldError, int]]:
    if depth > 64:
        return
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, None] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            place = (path, f".{key}")
            if key in seen and key != "<<":
                error = FieldError(
                    field=_said(place),
                    detail="this key occurs twice",
                    type="FieldValueDuplicate",
                    bad_value=key[:MAX_PATH],
                )
                yield error, key_node.start_mark.line + 1
            seen[key] = None
            yield from _duplicates(value_node, place, depth + 1)
    elif isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            yield from _duplicates(item, (path, f"[{position}]"), depth + 1)


def _said(path: _Path | None) -> str:
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(step)
    return "".join(reversed(steps)).removeprefix(".")[:MAX_PATH]


def _check_size(node: Any) -> None:
    """Refuse aliases that blow up.

    Raises:
        ValueError: more than MAX_NODES nodes.
    """
    sizes: dict[int, int] = {}

    def size(current: Any, depth: int) -> int:
        if depth > 128:
            raise ValueError("nested too deeply, or an alias contains itself")
        known = sizes.get(id(current))
        if known is not None:
            return known
        if isinstance(current, yaml.MappingNode):
            total = 1 + sum(size(key, depth + 1) + size(value, depth + 1) for key, value in current.value)
        elif isinstance(current, yaml.SequenceNode):
            total = 1 + sum(size(item, depth + 1) for item in current.value)
        else:
            total = 1
        sizes[id(current)] = total
        if total > MAX_NODES:
            raise ValueError(f"{_TOO_MANY}; do aliases repeat each other?")
        return total

    size(node, 0)


LINES_FOUND = 100
"""Errors of a document whose line is looked for; others have that of the document."""
MAX_PATH = 1_000
"""Characters of a key's place that are said."""


def _line_of(node: Any, path: str) -> int:
    """Return the line of the field at *path*, or of the nearest thing around it that exists."""
    line = int(node.start_mark.line) + 1
    rest = path
    while rest:
        step = _STEP.match(rest.lstrip("."))
        if step is None:
            return line
        rest = rest.lstrip(".")[step.end() :]
        word = step.group(1) if step.group(1) is not None else step.group(2)
        if isinstance(node, yaml.SequenceNode) and word.isdigit() and int(word) < len(node.value):
            node = node.value[int(word)]
            line = node.start_mark.line + 1
        elif isinstance(node, yaml.MappingNode):
            found = [(key, value) for key, value in node.value if key.value == word]
            if not found:
                return line
            line, node = found[0][0].start_mark.line + 1, found[0][1]
        else:
            return line
    return line
