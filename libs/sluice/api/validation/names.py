"""Formats of names, labels and annotations, with the messages of Kubernetes' API server."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from sluice.api.errors import FieldError, invalid, required, too_long
from sluice.api.meta import LabelSelector, LabelSelectorRequirement

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = rf"({_QUALIFIED})?"
_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_qualified = re.compile(_QUALIFIED).fullmatch
_is_value = re.compile(_VALUE).fullmatch
_is_path = re.compile(_PATH).fullmatch
_is_relaxed_subdomain = re.compile(_SUBDOMAIN, re.IGNORECASE).fullmatch

LABEL_KEY = "format=k8s-label-key"
LABEL_VALUE = "format=k8s-label-value"
MAX_ANNOTATIONS_BYTES = 256 * 1024

_ALPHANUMERIC = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)


def _with_regex(message: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(most: int) -> str:
    return f"must be no more than {most} bytes"


@lru_cache(maxsize=4096)
def dns_label(text: str) -> tuple[str, ...]:
    """Return what is wrong with an RFC 1123 label: nothing, or messages."""
    found = []
    if len(text.encode()) > 63:
        found.append(_too_long(63))
    if not _is_label(text):
        found.append(
            _with_regex(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
                "must start and end with an alphanumeric character",
                _LABEL,
                "my-name",
                "123-abc",
            )
        )
    return tuple(found)


@lru_cache(maxsize=8192)
def dns_subdomain(text: str) -> tuple[str, ...]:
    """Return what is wrong with an RFC 1123 subdomain: nothing, or messages."""
    found = []
    if len(text.encode()) > 253:
        found.append(_too_long(253))
    if not _is_subdomain(text):
        found.append(
            _with_regex(
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
                "'.', and must start and end with an alphanumeric character",
                _SUBDOMAIN,
                "example.com",
            )
        )
    return tuple(found)


def flavor_name(text: str) -> tuple[str, ...]:
    """Return what is wrong with a flavor's name. Ours: capitals are allowed, as KEP-8691 writes them."""
    if len(text) <= 253 and _is_relaxed_subdomain(text):
        return ()
    return dns_subdomain(text)


@lru_cache(maxsize=8192)
def qualified_name(text: str) -> tuple[str, ...]:
    """Return what is wrong with a label key or resource name, `[prefix/]name`."""
    prefix, slash, name = text.partition("/")
    found: list[str] = []
    if not slash:
        name = prefix
    elif "/" in name:
        message = f"a valid label key {_ALPHANUMERIC}"
        return (
            _with_regex(message, _QUALIFIED, "MyName", "my.name", "123-abc")
            + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    elif not prefix:
        found.append("prefix part must be non-empty")
    else:
        found += [f"prefix part {message}" for message in dns_subdomain(prefix)]
    if not name:
        found.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        found.append(f"name part {_too_long(63)}")
    if not _is_qualified(name):
        found.append(_with_regex(f"name part {_ALPHANUMERIC}", _QUALIFIED, "MyName", "my.name", "123-abc"))
    return tuple(found)


@lru_cache(maxsize=8192)
def label_value(text: str) -> tuple[str, ...]:
    """Return what is wrong with a label's value; '' is fine."""
    found = []
    if len(text.encode()) > 63:
        found.append(_too_long(63))
    if not _is_value(text):
        message = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character"
        )
        found.append(_with_regex(message, _VALUE, "MyValue", "my_value", "12345"))
    return tuple(found)


def check_name(field: str, text: str, messages: Sequence[str]) -> list[FieldError]:
    """Return one error per message."""
    return [invalid(field, text, message) for message in messages]


def check_label_key(field: str, key: str) -> list[FieldError]:
    """Check a key: an optional DNS prefix, and a name of at most 63 characters."""
    return [invalid(field, key, message, LABEL_KEY) for message in qualified_name(key)]


def check_labels(field: str, labels: Mapping[str, str]) -> list[FieldError]:
    """Check keys and values; all errors are at *field* itself, as Kubernetes reports them."""
    found: list[FieldError] = []
    for key in sorted(labels):
        found += check_label_key(field, key)
        found += [invalid(field, labels[key], text, LABEL_VALUE) for text in label_value(labels[key])]
    return found


def check_annotations(field: str, annotations: Mapping[str, str]) -> list[FieldError]:
    """Check keys and the size of all annotations together; values are free text."""
    found: list[FieldError] = []
    size = 0
    for key in sorted(annotations):
        # Keys are compared without case, the value is free text.
        found += [invalid(field, key, message, LABEL_KEY) for message in qualified_name(key.lower())]
        size += len(key.encode()) + len(annotations[key].encode())
    if size > MAX_ANNOTATIONS_BYTES:
        found.append(too_long(field, MAX_ANNOTATIONS_BYTES))
    return found


def check_selector(field: str, selector: LabelSelector | None) -> list[FieldError]:
    """Check a label selector; an absent one is fine."""
    if selector is None:
        return []
    found = check_labels(f"{field}.matchLabels", selector.match_labels)
    for index, requirement in enumerate(selector.match_expressions):
        found += _check_requirement(f"{field}.matchExpressions[{index}]", requirement)
    return found


def _check_requirement(field: str, requirement: LabelSelectorRequirement) -> Iterator[FieldError]:
    operator, values = requirement.operator, requirement.values
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            yield required(f"{field}.values", text)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield FieldError(field=f"{field}.values", detail=text, type="FieldValueForbidden")
    else:
        yield invalid(f"{field}.operator", operator, "not a valid selector operator")
    yield from check_label_key(f"{field}.key", requirement.key)
    for index, value in enumerate(values):
        yield from (
            invalid(f"{field}.values[{index}]", value, text, LABEL_VALUE) for text in label_value(value)
        )


def check_domain_path(field: str, text: str) -> list[FieldError]:
    """Check `domain/path`, such as an admission gate's or a controller's name."""
    domain, slash, path = text.partition("/")
    if not text:
        return [required(field)]
    if not slash or not domain or not path:
        return [invalid(field, text, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    found = [invalid(field, domain, message) for message in dns_subdomain(domain)]
    if not _is_path(path):
        found.append(invalid(field, path, f"Invalid path (regex used for validation is '{_PATH}')"))
    return found


def check_node_requirement(field: str, requirement: LabelSelectorRequirement) -> list[FieldError]:
    """Check one expression of a node affinity, which also knows Gt and Lt."""
    if requirement.operator not in ("Gt", "Lt"):
        return [*_check_requirement(field, requirement)]
    found = check_label_key(f"{field}.key", requirement.key)
    if len(requirement.values) != 1:
        text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        found.append(required(f"{field}.values", text))
    elif not is_integer(requirement.values[0]):
        text = "must be an integer when `operator` is 'Lt' or 'Gt'"
        found.append(invalid(f"{field}.values[0]", requirement.values[0], text))
    return found


is_integer = re.compile(r"[-+]?[0-9]+").fullmatch
