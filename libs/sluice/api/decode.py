"""Strict decoding of manifests from JSON and Python values; YAML is in `sluice.api.yaml`.

The good case is one pass of a prepared decoder. Only when that fails is the input walked again, to
report all that is wrong with it, with the paths that users wrote.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from . import _walk
from .custom import may_be_custom
from .errors import UNREADABLE, FieldError, InvalidError, not_supported, required, type_invalid, unreadable
from .mapped import MappedJob, Mapping, OwnKinds, own_job
from .meta import Manifest
from .scheme import BY_GVK, Kind, custom_kind, own_job_kind
from .spelling import as_written
from .unsupported import instead_of, unknown_kind

MAX_DEPTH = 64
"""Nesting that no manifest needs; deeper input is refused before anything recurses into it."""


_DIGITS = bytes(ord("0") if chr(byte) in "0123456789" else byte for byte in range(256))
"""Makes a 0 of every digit."""
_HUGE = b"0" * 19


@dataclass(frozen=True, slots=True)
class Wrong:
    """A manifest of which some fields are not of their types.

    *canonical*: what is wrong with its shape, by the fields of *value*, its canonical form; *written*: as its
    author has it.
    """

    kind: type[Manifest]
    value: object
    canonical: tuple[FieldError, ...]
    written: dict[str, Any]
    mapping: Mapping | None = None

    def rests(self) -> list[Manifest]:
        """Return what is right of it: with nothing in place of what is wrong, and with something."""
        found: list[Manifest] = []
        for filled in (False, True):
            try:
                rest = msgspec.convert(_walk.fitting(self.value, self.kind, filled=filled), self.kind)
            except msgspec.ValidationError:
                return []
            if self.mapping is not None and isinstance(rest, MappedJob):
                rest = own_job(rest, self.mapping)
            found.append(rest)
        return found


class DecodeError(InvalidError):
    """The input is no manifest; `errors` has all that is wrong with its shape.

    *wrong*: for whoever wants to know what is wrong with its values besides (`validation.all_errors`).
    """

    def __init__(
        self, errors: tuple[FieldError, ...], what: str = "manifest", wrong: Wrong | None = None
    ) -> None:
        super().__init__(errors, what)
        self.wrong = wrong


class _TypeMeta(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


_type_meta = msgspec.json.Decoder(_TypeMeta)
_decoders: dict[tuple[str, str], msgspec.json.Decoder[Manifest]] = {
    key: msgspec.json.Decoder(kind.type)
    for key, kind in BY_GVK.items()
    if kind.prepare is None and kind.type is not MappedJob
}
"""Not of kinds that keep their spec as it was written: how deep that is has to be looked at."""


def decode_json(
    data: bytes | bytearray | memoryview | msgspec.Raw | str, *, own_kinds: OwnKinds | None = None
) -> Manifest:
    """Decode one JSON manifest; *own_kinds* as of `decode_object`.

    Raises:
        DecodeError: not JSON, not a known kind, or not of its shape.
    """
    try:
        meta = _type_meta.decode(data)
        decoder = _decoders.get((meta.api_version, meta.kind))
        if decoder is not None and not _may_hold_huge(data):
            return decoder.decode(data)
    except UNREADABLE:
        pass  # walked below, for better errors
    return decode_object(_parsed(data), own_kinds=own_kinds)


def _may_hold_huge(data: bytes | bytearray | memoryview | msgspec.Raw | str) -> bool:
    """Tell whether there are enough digits in a row for an integer beyond 64 bits."""
    text = data.encode() if isinstance(data, str) else bytes(data)
    return _HUGE in text.translate(_DIGITS)


def _parsed(data: bytes | bytearray | memoryview | msgspec.Raw | str) -> object:
    try:
        return msgspec.json.decode(data)
    except UNREADABLE as error:
        raise DecodeError((unreadable(f"not JSON: {error}"),)) from error


def decode_object(value: object, *, custom: bool = False, own_kinds: OwnKinds | None = None) -> Manifest:
    """Decode one manifest from Python values (dict, list, str, int, float, bool, None).

    *custom*: kinds that teams have registered are taken, too; whether one is, and fits its schema, is not
    known here. *own_kinds*: says by which mapping jobs of teams' kinds go, which are taken then.

    Raises:
        DecodeError: not a known kind, or not of its shape.
    """
    if not isinstance(value, dict):
        raise DecodeError((type_invalid("", _short(value), "expected mapping: a manifest"),))
    if not _is_plain(value):
        if _too_deep(value):
            raise DecodeError((unreadable(f"nested deeper than {MAX_DEPTH} levels"),))
        if huge := list(_walk.huge_integers(value)):
            raise DecodeError(tuple(huge), describe(value))
    mapping = _own_mapping(value, own_kinds)
    kind = find_kind(value, custom=custom) if mapping is None else _own_kind(value)
    manifest = _walk.without_nulls(value)
    problems: list[FieldError] = []
    if kind.prepare is not None:
        manifest = kind.prepare(manifest, problems)
    # A mapping is not for whoever submits: what is decoded has none.
    shape = kind.type if mapping is None else MappedJob
    try:
        decoded = msgspec.convert(manifest, shape)
    except msgspec.ValidationError as error:
        found = _walk.shape_errors(manifest, shape) or [unreadable(str(error))]
        wrong = Wrong(shape, manifest, (*problems, *found), value, mapping)
        raise DecodeError((*problems, *as_written(found, value)), describe(value), wrong) from error
    if problems:
        wrong = Wrong(shape, manifest, tuple(problems), value, mapping)
        raise DecodeError(tuple(problems), describe(value), wrong)
    if mapping is not None and isinstance(decoded, MappedJob):
        return own_job(decoded, mapping)
    return decoded


def _own_mapping(value: dict[str, Any], own_kinds: OwnKinds | None) -> Mapping | None:
    """Return the mapping of a team's kind that *value* says it is; kinds that there are have none."""
    if own_kinds is None:
        return None
    key = str(value.get("apiVersion")), str(value.get("kind"))
    return None if key in BY_GVK else own_kinds(*key)


def _own_kind(value: dict[str, Any]) -> Kind:
    return own_job_kind(str(value["apiVersion"]), str(value["kind"]))


def any_own_kind(api_version: str, kind: str) -> Mapping | None:
    """Say of every kind that may be a team's that it is one, of which nothing is known here."""
    return Mapping() if may_be_custom(api_version) and not instead_of(api_version, kind) else None


def wrong_fields(data: bytes | msgspec.Raw, kind: type[msgspec.Struct]) -> tuple[FieldError, ...]:
    """Return every unknown, missing and mistyped field of JSON that is to be a *kind*, () if it is one."""
    try:
        value = msgspec.json.decode(data)
    except UNREADABLE:
        return ()
    return tuple(_walk.huge_integers(value)) or tuple(_walk.shape_errors(value, kind))


def find_kind(value: dict[str, Any], *, custom: bool = False) -> Kind:
    """Return the kind that *value* says it is.

    Raises:
        DecodeError: `apiVersion` or `kind` is missing or unknown; the error lists the known ones.
    """
    api_version, kind = value.get("apiVersion"), value.get("kind")
    missing = [name for name, found in (("apiVersion", api_version), ("kind", kind)) if not found]
    if missing:
        raise DecodeError(tuple(required(name) for name in missing))
    known = BY_GVK.get((str(api_version), str(kind)))
    if known is not None:
        return known
    if custom and may_be_custom(api_version) and not instead_of(str(api_version), str(kind)):
        return custom_kind(str(api_version), str(kind))
    versions = [version for version, name in BY_GVK if name == kind]
    if versions and not instead_of(str(api_version), str(kind)):
        raise DecodeError((not_supported("apiVersion", _short(api_version), versions),))
    raise DecodeError((unknown_kind(api_version, _short(kind), (name for _, name in BY_GVK)),))


def describe(value: object) -> str:
    """Return `Kind "namespace/name"` for messages about a manifest that may be broken."""
    if not isinstance(value, dict):
        return "manifest"
    metadata = value.get("metadata")
    fields = metadata if isinstance(metadata, dict) else {}
    name = "/".join(str(fields[key]) for key in ("namespace", "name") if fields.get(key))
    kind = str(value.get("kind") or "manifest")
    return f'{kind} "{name}"' if name else kind


def _short(value: object) -> str | int | float | bool | None:
    if isinstance(value, str | int | float | bool | None):
        return value
    return type(value).__name__


def _too_deep(value: object, depth: int = 0) -> bool:
    if depth > MAX_DEPTH:
        return True
    if isinstance(value, dict):
        return any(_too_deep(item, depth + 1) for item in value.values())
    if isinstance(value, list):
        return any(_too_deep(item, depth + 1) for item in value)
    return False


def _is_plain(value: dict[str, Any] | list[Any], depth: int = 0) -> bool:
    """Tell whether there is no integer beyond 64 bits in it, and no doubt about its depth."""
    if depth >= MAX_DEPTH:
        return False
    for item in value.values() if isinstance(value, dict) else value:
        if type(item) is str:
            continue
        if isinstance(item, dict | list):
            if not _is_plain(item, depth + 1):
                return False
        elif isinstance(item, int) and not -(2**63) <= item < 2**63:
            return False
    return True
