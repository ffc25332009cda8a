"""Kueue's own Configuration made one of Sluice's: what is wrong with it, and what has no effect."""

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from sluice.api.errors import FieldError, forbidden, near_miss, not_supported, type_invalid, unknown_field
from sluice.api.features import DEFAULTS, WITHOUT_EFFECT

from .gates import DISABLE_WAIT_FOR_PODS_READY, FOREIGN
from .table import FIELDS, FRAMEWORKS, NEW, OLD, VERSIONS, Field, How, Shape

Object = dict[str, Any]
Errors = list[FieldError]

NAME: Final = "default"
OWN: Final = "sluice.dev/v1alpha1"

_TIMEOUT_SECONDS: Final = {OLD: 300, NEW: 1800}
_BY_PATH: Final = {field.path: field for field in FIELDS}
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(h|ms|m|s|us|µs|ns)")
_NANOSECONDS: Final = {
    "h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "µs": 10**3, "ns": 1,
}  # fmt: skip
_DIGITS: Final = 100
_LONGEST: Final = 2**63
"""Of one of Go's durations, in nanoseconds."""
_TYPES: Final[dict[Shape, tuple[type, ...]]] = {
    Shape.BOOL: (bool,),
    Shape.INT: (int,),
    Shape.NUMBER: (int, float),
    Shape.TEXT: (str,),
    Shape.DURATION: (str,),
    Shape.TEXTS: (list,),
    Shape.LIST: (list,),
    Shape.MAPPING: (dict,),
    Shape.GATES: (dict,),
}


def is_kueue_config(manifest: Mapping[str, Any]) -> bool:
    """Tell whether a manifest is Kueue's own Configuration, of a version that is read."""
    return manifest.get("kind") == "Configuration" and manifest.get("apiVersion") in VERSIONS


def to_configuration(manifest: Object, errors: Errors) -> Object:
    """Return Sluice's Configuration that does what Kueue's asks for; add what is wrong to *errors*."""
    version = str(manifest["apiVersion"])
    found: dict[str, Any] = {}
    for field, value in _read(manifest, version, errors):
        if (read := _value(field, value, errors)) is not None:
            found[field.path] = read
    _fill_in(manifest, version, found)
    spec: Object = {}
    for path, value in found.items():
        if to := _BY_PATH[path].to:
            _put(spec, to, value)
    return {"apiVersion": OWN, "kind": "Configuration", "metadata": {"name": NAME}, "spec": spec}


def warnings(manifest: Object) -> list[str]:
    """Return what of Kueue's Configuration has no effect here, or another one, by the fields that say it.

    >>> kind = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    >>> warnings({**kind, "webhook": {"port": 1}})
    ['webhook.port has no effect: there are no webhooks, and no certificates for them']
    """
    said: dict[str, list[str]] = {}
    for field, value in _read(manifest, str(manifest["apiVersion"]), []):
        if field.how in (How.IGNORED, How.NOT_YET) and value not in ({}, []) and value not in field.silent:
            said.setdefault(field.said, []).append(field.path)
    found = [
        f"{', '.join(paths)} {'has' if len(paths) == 1 else 'have'} no effect: {why}"
        for why, paths in said.items()
    ]
    return [*found, *_warn_of_gates(manifest), *_warn_of_frameworks(manifest)]


def renames() -> Iterator[tuple[str, str]]:
    """Yield (pattern of canonical fields, field as Kueue has it), the longer ones first."""
    for field in sorted(FIELDS, key=lambda one: -len(one.to)):
        if field.to and field.to != field.path:
            yield re.escape(f"spec.{field.to}"), field.path
    yield r"spec\.(\w+)", r"\1"


def _warn_of_gates(manifest: Object) -> Iterator[str]:
    gates = manifest.get("featureGates")
    names = list(gates) if isinstance(gates, dict) else []
    idle = [name for name in names if name in FOREIGN or name in WITHOUT_EFFECT]
    if idle:
        which = ", ".join(f"featureGates[{name}]" for name in idle)
        yield f"{which} {'has' if len(idle) == 1 else 'have'} no effect here"


def _warn_of_frameworks(manifest: Object) -> Iterator[str]:
    integrations = manifest.get("integrations")
    listed = integrations.get("frameworks") if isinstance(integrations, dict) else None
    if isinstance(listed, list) and listed and (others := [one for one in FRAMEWORKS if one not in listed]):
        yield f"integrations.frameworks excludes nothing: jobs are taken of {', '.join(others)}, too"


def _read(manifest: Object, version: str, errors: Errors) -> Iterator[tuple[Field, Any]]:
    top = {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind")}
    yield from _walk(top, "", version, errors)


def _walk(mapping: Object, around: str, version: str, errors: Errors) -> Iterator[tuple[Field, Any]]:
    for key, value in mapping.items():
        path = f"{around}{key}"
        field = _BY_PATH.get(path)
        if field is not None and version in field.versions:
            if _fits(field, path, value, errors):
                yield field, value
        elif field is None and any(known.startswith(f"{path}.") for known in _BY_PATH):
            if isinstance(value, dict):
                yield from _walk(value, f"{path}.", version, errors)
            else:
                errors.append(type_invalid(path, _shown(value), "expected a mapping"))
        elif field is not None:
            (only,) = field.versions
            errors.append(FieldError(field=path, detail=f"only {only} has it", type="FieldUnknown"))
        else:
            errors.append(unknown_field(path, near_miss(str(key), _beside(around, version))))


def _beside(around: str, version: str) -> list[str]:
    """Return the names of the fields that there are at a place."""
    known = [
        path for path, field in _BY_PATH.items() if version in field.versions and path.startswith(around)
    ]
    return list(dict.fromkeys(path[len(around) :].partition(".")[0] for path in known))


def _shown(value: Any) -> Any:
    return type(value).__name__ if isinstance(value, dict | list) else value


def _fits(field: Field, path: str, value: Any, errors: Errors) -> bool:
    types = _TYPES[field.shape]
    right = isinstance(value, types) and (bool in types or not isinstance(value, bool))
    if right and field.shape is Shape.DURATION:
        right = _duration(value) is not None
    if not right:
        errors.append(type_invalid(path, _shown(value), f"expected {field.shape.value}"))
        return False
    return True


def _check_items(field: Field, value: Any, errors: Errors) -> None:
    if field.shape is Shape.TEXTS:
        wrong = [(key, item, "a string") for key, item in enumerate(value) if not isinstance(item, str)]
    elif field.shape is Shape.GATES:
        wrong = [(key, item, "a boolean") for key, item in value.items() if not isinstance(item, bool)]
    else:
        return
    errors += [
        type_invalid(f"{field.path}[{key}]", _shown(item), f"expected {it}") for key, item, it in wrong
    ]


def _duration(text: str) -> Fraction | None:
    """Return the seconds of one of Go's durations, None if it is none."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if digits == "0":
        return Fraction(0)
    parts = _DURATION.findall(digits) if len(digits) < _DIGITS else []
    if not parts or "".join(number + unit for number, unit in parts) != digits:
        return None
    nanoseconds = sum(Fraction(number) * _NANOSECONDS[unit] for number, unit in parts)
    seconds = Fraction(nanoseconds, 10**9)
    return None if nanoseconds >= _LONGEST else -seconds if text.startswith("-") else seconds


def _value(field: Field, value: Any, errors: Errors) -> Any:
    """Return a field's value as Sluice has it, None where there is none."""
    if field.how is How.REFUSED:
        if value not in ([], {}):
            errors.append(forbidden(field.path, f"not supported: {field.said}"))
        return None
    _check_items(field, value, errors)
    if field.path == "featureGates":
        return _gates(value, errors)
    if field.path == "integrations.frameworks":
        errors += [
            not_supported(f"{field.path}[{index}]", name, FRAMEWORKS)
            for index, name in enumerate(value)
            if isinstance(name, str) and name not in FRAMEWORKS
        ]
    if field.shape is Shape.TEXTS:
        return [one for one in value if isinstance(one, str)]
    if field.shape is not Shape.DURATION or not field.to:
        return value
    seconds = _duration(value)
    if seconds is None or seconds.denominator != 1:
        errors.append(FieldError(field=field.path, detail="must be whole seconds", bad_value=value))
        return None
    return int(seconds)


def _gates(gates: dict[str, bool], errors: Errors) -> dict[str, bool]:
    known = [*DEFAULTS, *sorted(FOREIGN), DISABLE_WAIT_FOR_PODS_READY]
    errors += [
        unknown_field(f"featureGates[{name}]", near_miss(name, known)) for name in gates if name not in known
    ]
    return {name: on for name, on in gates.items() if name in DEFAULTS and isinstance(on, bool)}


def _fill_in(manifest: Object, version: str, found: dict[str, Any]) -> None:
    """Put in what Kueue fills in, and Sluice has in another way: what is on for being there, and times."""
    wait = "waitForPodsReady"
    gates = manifest.get("featureGates")
    if isinstance(manifest.get("fairSharing"), dict) and version == NEW:
        found["fairSharing.enable"] = True
    if not isinstance(manifest.get(wait), dict):
        return
    on = version == NEW or found.get(f"{wait}.enable") is True
    if isinstance(gates, dict) and gates.get(DISABLE_WAIT_FOR_PODS_READY) is True:
        on = False
    found[f"{wait}.enable"] = on
    timeout = found.setdefault(f"{wait}.timeout", _TIMEOUT_SECONDS[version])
    if on:
        found.setdefault(f"{wait}.blockAdmission", version == OLD)
    if version == NEW:
        found.setdefault(f"{wait}.recoveryTimeout", timeout)
    if found.get(f"{wait}.recoveryTimeout") == 0:
        del found[f"{wait}.recoveryTimeout"]


def _put(spec: Object, to: str, value: Any) -> None:
    *around, last = to.split(".")
    for step in around:
        spec = spec.setdefault(step, {})
    spec[last] = value
