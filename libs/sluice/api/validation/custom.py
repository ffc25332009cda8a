"""Definitions of teams' own kinds, and their objects against the JSON Schema in them.

A schema is data from outside: it is bounded in size, depth and in the steps that a validation takes, refers
to nothing (no `$ref`), and runs no regular expression, as one can be written that never ends.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from sluice.api.custom import CustomObject, CustomResourceDefinition, DefinitionVersion, may_be_custom
from sluice.api.errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
    unknown_field,
)

from . import names

MAX_SCHEMA_BYTES: Final = 64 * 1024
MAX_OBJECT_BYTES: Final = 64 * 1024
MAX_SCHEMA_DEPTH: Final = 32
MAX_VERSIONS: Final = 10
MAX_STEPS: Final = 100_000
"""Keywords looked at in one validation: about a second."""
MAX_ERRORS: Final = 20
MAX_TEXT: Final = 200

_FORBIDDEN: Final = (
    "$ref", "$dynamicRef", "$recursiveRef", "$id", "id", "$schema", "$anchor", "$defs", "definitions",
    "uniqueItems", "dependencies", "patternProperties", "additionalItems",
)  # fmt: skip
"""As Kubernetes forbids them in structural schemas."""

UNCHECKED: Final = ("pattern", "format", "x-kubernetes-validations")
"""Keywords that are kept and not enforced."""

_SCALAR: Final = ("enum", "required", "default", "example")
"""Keywords whose values are no schemas."""


class _TooManyStepsError(Exception):
    pass


# Definitions


def check_definition(definition: CustomResourceDefinition) -> list[FieldError]:
    """Check a new or changed definition, alone; that its kind is nobody else's is for whoever knows all."""
    spec = definition.spec
    found = names.check_name("spec.group", spec.group, names.dns_subdomain(spec.group))
    if not may_be_custom(f"{spec.group}/v"):
        text = "must have a dot, and be none of Kubernetes' or Sluice's own groups"
        found.append(invalid("spec.group", spec.group, text))
    for word, value in (("plural", spec.names.plural), ("kind", spec.names.kind)):
        if not value:
            found.append(required(f"spec.names.{word}"))
        else:
            found += names.check_name(f"spec.names.{word}", value, names.dns_label(value.lower()))
    expected = f"{spec.names.plural}.{spec.group}"
    if spec.names.plural and definition.metadata.name != expected:
        text = f'must be spec.names.plural+"."+spec.group: {expected}'
        found.append(invalid("metadata.name", definition.metadata.name, text))
    if spec.scope != "Cluster":
        found.append(not_supported("spec.scope", spec.scope, ("Cluster",)))
    if not any(version.served for version in spec.versions):
        found.append(required("spec.versions", "at least one that is served"))
    if len(spec.versions) > MAX_VERSIONS:
        found.append(too_many("spec.versions", len(spec.versions), MAX_VERSIONS))
        return found
    for i, version in enumerate(spec.versions):
        found += _check_version(f"spec.versions[{i}]", version)
    return found


def _check_version(field: str, version: DefinitionVersion) -> list[FieldError]:
    found = names.check_name(f"{field}.name", version.name, names.dns_label(version.name))
    schema = version.schema.open_api_v3_schema
    place = f"{field}.schema.openAPIV3Schema"
    if schema is None:
        return [*found, required(place)]
    if len(msgspec.json.encode(schema)) > MAX_SCHEMA_BYTES:
        return [*found, too_long(place, MAX_SCHEMA_BYTES)]
    wrong = list(_check_schema(place, schema, 0))[:MAX_ERRORS]
    return [*found, *(wrong or _check_meta(place, schema))]


def _check_schema(field: str, schema: object, depth: int) -> Iterator[FieldError]:
    """Yield what may not be in a schema, before anything looks at it that would go after it."""
    if depth > MAX_SCHEMA_DEPTH:
        yield forbidden(field, f"is nested deeper than {MAX_SCHEMA_DEPTH} schemas")
        return
    if isinstance(schema, list):
        for i, one in enumerate(schema):
            yield from _check_schema(f"{field}[{i}]", one, depth + 1)
        return
    if not isinstance(schema, dict):
        return
    for word, value in schema.items():
        place = f"{field}.{word}"
        if word in _FORBIDDEN and not (word == "uniqueItems" and value is False):
            yield forbidden(place, "may not be used in the schema of a kind")
        elif word == "properties" and isinstance(value, dict):
            for name, one in value.items():
                yield from _check_schema(f"{place}[{name}]", one, depth + 1)
        elif word not in _SCALAR:
            yield from _check_schema(place, value, depth + 1)


def _check_meta(field: str, schema: dict[str, Any]) -> list[FieldError]:
    """Check that it is a schema: OpenAPI's is draft 4's, with a few words more."""
    import jsonschema

    try:
        jsonschema.Draft4Validator.check_schema(_plain_schema(schema))
    except jsonschema.SchemaError as error:
        place = field + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.absolute_path)
        return [invalid(place, "", error.message[:MAX_TEXT])]
    except RecursionError:
        return [forbidden(field, "is nested too deeply")]
    return []


def unchecked(definition: CustomResourceDefinition) -> list[str]:
    """Return which keywords of its schemas are kept and not enforced, each once."""
    text = msgspec.json.encode([version.schema for version in definition.spec.versions])
    return [word for word in UNCHECKED if f'"{word}":'.encode() in text]


def check_definition_update(new: CustomResourceDefinition, old: CustomResourceDefinition) -> list[FieldError]:
    """Check a definition in place of another: its kind stays."""
    if new.spec.names.kind == old.spec.names.kind:
        return []
    return [invalid("spec.names.kind", new.spec.names.kind, "field is immutable")]


# Objects


def check_object(found: CustomObject, definition: CustomResourceDefinition) -> list[FieldError]:
    """Return what the schema of its version has against the object, with the paths that its author wrote."""
    version = definition.version(found.api_version)
    if version is None or version.schema.open_api_v3_schema is None:
        served = [f"{definition.spec.group}/{v.name}" for v in definition.spec.versions if v.served]
        return [not_supported("apiVersion", found.api_version, served)]
    if len(msgspec.json.encode(found.spec)) > MAX_OBJECT_BYTES:
        return [too_long("spec", MAX_OBJECT_BYTES)]
    schema = _structural(_plain_schema(version.schema.open_api_v3_schema))
    properties = {k: v for k, v in (schema.get("properties") or {}).items() if k == "spec"}
    required_here = [name for name in schema.get("required") or () if name == "spec"]
    whole = {**schema, "properties": properties, "required": required_here}
    if not required_here:
        del whole["required"]
    instance = {"spec": found.spec} if found.spec else {}
    try:
        errors = [error for _, error in zip(range(MAX_ERRORS), _errors(whole, instance), strict=False)]
    except (_TooManyStepsError, RecursionError):
        return [forbidden("spec", f"takes more than {MAX_STEPS} steps to validate")]
    return errors


def _errors(schema: dict[str, Any], instance: object) -> Iterator[FieldError]:
    for error in _validator()(schema).iter_errors(instance):
        yield from _field_errors(error)


def _field_errors(error: Any) -> Iterator[FieldError]:
    place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.absolute_path)[1:]
    message = str(error.message)[:MAX_TEXT]
    match error.validator:
        case "required":
            for name in error.validator_value:
                if name not in error.instance:
                    yield required(f"{place}.{name}".lstrip("."))
        case "additionalProperties" if isinstance(error.instance, Mapping):
            known = error.schema.get("properties") or {}
            for name in error.instance:
                if name not in known:
                    yield unknown_field(f"{place}.{name}".lstrip("."))
        case "type":
            types = error.validator_value
            text = " or ".join(types) if isinstance(types, list) else types
            yield type_invalid(place, _shown(error.instance), f"must be {text}")
        case "enum":
            yield not_supported(place, _shown(error.instance), [str(v) for v in error.validator_value])
        case "maxItems":
            yield too_many(place, len(error.instance), error.validator_value)
        case "maxLength":
            yield invalid(
                place, _shown(error.instance), f"may not be more than {error.validator_value} characters"
            )
        case word if word in _LIMITS:
            text = _LIMITS[word].format(error.validator_value)
            if word in ("minimum", "maximum") and error.schema.get(f"exclusive{word.title()}") is True:
                text = text.replace(" or equal to", "")
            yield invalid(place, _shown(error.instance), text)
        case _:
            yield invalid(place, _shown(error.instance), message)


_LIMITS: Final = {
    "minLength": "should be at least {} chars long",
    "minItems": "should have at least {} items",
    "minProperties": "should have at least {} properties",
    "maxProperties": "should have at most {} properties",
    "minimum": "should be greater than or equal to {}",
    "maximum": "should be less than or equal to {}",
    "multipleOf": "should be a multiple of {}",
    "anyOf": "must validate at least one schema (anyOf)",
    "oneOf": "must validate one and only one schema (oneOf)",
    "not": "must not validate the schema (not)",
}
"""In Kubernetes' words."""


def _shown(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | None) else _JSON.get(type(value), "object")


_JSON: Final[dict[type, str]] = {list: "array", dict: "object"}


@lru_cache(1)
def _validator() -> Callable[[Any], Any]:
    """Return a validator of draft 4 that counts its steps and goes after no reference."""
    import jsonschema
    from referencing import Registry

    base = jsonschema.Draft4Validator
    # To Kubernetes 3.0 is an integer, and 1.5 is none.
    types = base.TYPE_CHECKER.redefine("integer", lambda _, value: _is_integer(value))

    def make(schema: Any) -> Any:
        steps = [0]

        def counted(check: Callable[..., Any]) -> Callable[..., Any]:
            def run(*arguments: Any) -> Any:
                steps[0] += 1
                if steps[0] > MAX_STEPS:
                    raise _TooManyStepsError
                return check(*arguments)

            return run

        checks = {word: counted(check) for word, check in base.VALIDATORS.items() if word not in UNCHECKED}
        checks |= dict.fromkeys((*UNCHECKED, "$ref"), _pass)
        extend: Any = jsonschema.validators.extend
        return extend(base, checks, type_checker=types)(schema, registry=Registry())

    return make


def _is_integer(value: object) -> bool:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return whole and not isinstance(value, bool)


def _pass(*_: object) -> None:
    """Enforce nothing."""


def _plain_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema in draft 4's words: `nullable` is a type there."""
    found: dict[str, Any] = _rewritten(schema)
    return found


def _rewritten(value: Any) -> Any:
    if isinstance(value, list):
        return [_rewritten(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {
        word: {name: _rewritten(one) for name, one in inner.items()}
        if word == "properties" and isinstance(inner, dict)
        else inner
        if word in _SCALAR
        else _rewritten(inner)
        for word, inner in value.items()
    }
    if found.get("x-kubernetes-int-or-string") is True and "type" not in found:
        found["type"] = ["integer", "string", *(["null"] if found.get("nullable") is True else [])]
    if found.get("nullable") is True and isinstance(found.get("type"), str):
        found["type"] = [found["type"], "null"]
    return found


def _structural(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with unknown fields forbidden, where it does not say otherwise.

    Kubernetes drops them; here a misspelt field is an error and not silence. Within anyOf and the like fields
    are only looked at, not declared.
    """
    found = dict(schema)
    if isinstance(items := found.get("items"), dict):
        found["items"] = _structural(items)
    if isinstance(other := found.get("additionalProperties"), dict):
        found["additionalProperties"] = _structural(other)
    if isinstance(properties := found.get("properties"), dict):
        found["properties"] = {
            name: _structural(one) if isinstance(one, dict) else one for name, one in properties.items()
        }
        if "additionalProperties" not in found and not found.get("x-kubernetes-preserve-unknown-fields"):
            found["additionalProperties"] = False
    return found


__all__ = ["check_definition", "check_definition_update", "check_object", "unchecked"]
