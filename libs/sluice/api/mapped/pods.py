"""The pods of a job whose kind is in the table, and all that is wrong with how they are written."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from sluice.api import _walk
from sluice.api.core_v1 import Container, PodSpec, PodTemplateSpec, ResourceRequirements
from sluice.api.errors import FieldError, InvalidError, invalid, plain, required, type_invalid

from .job import MappedJob, OwnJob
from .rules import ITSELF, PodSetRule, find
from .rules import Mapping as Rules
from .spark import spark_pods
from .table import APP_WRAPPER, MAPPED, POD_GROUP, SPARK, WRAPPED

_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Pods:
    """A pod set as the manifest has it. `field` is where its template stands, `count_field` its number."""

    name: str
    count: int
    template: PodTemplateSpec
    field: str
    count_field: str = ""
    min_count: int | None = None
    min_field: str = ""


def rules_of(job: MappedJob) -> Rules:
    """Return what is known of the job's kind; nothing, if that is unknown."""
    if isinstance(job, OwnJob):
        return job.mapping
    known = MAPPED.get((job.api_version, job.kind))
    return Rules() if known is None else known.mapping


def pods_of(job: MappedJob) -> list[Pods]:
    """Return the pod sets of a valid job.

    Raises:
        InvalidError: it has not been validated.
    """
    found, errors = read(job)
    if errors:
        raise InvalidError(errors, f'{job.kind} "{job.metadata.name}"')
    return found


def read(job: MappedJob) -> tuple[list[Pods], list[FieldError]]:
    """Return the pod sets of a job that can be read, and why others cannot."""
    errors: list[FieldError] = []
    own = _BY_HAND.get((job.api_version, job.kind))
    if own is not None:
        return own(job, errors), errors
    rules = rules_of(job).pod_sets
    found = list(_by_rules({"metadata": _plain(job.metadata), "spec": job.spec}, rules, "", errors))
    if not found and not errors:
        errors.append(required(*_missing(rules)))
    return found, errors


def _plain(metadata: Any) -> Any:
    return msgspec.to_builtins(metadata)


def _missing(rules: Sequence[PodSetRule]) -> tuple[str, str]:
    """Return the field that all templates stand below, and what is wanted there."""
    places = [f"{rule.each}[].{rule.template}" if rule.each else rule.template for rule in rules]
    places = [place or rule.resources for place, rule in zip(places, rules, strict=True)]
    if len(places) == 1:
        return places[0], ""
    return "spec", f"pods of a kind that is admitted: at least one of {', '.join(places)}"


def _by_rules(
    whole: Any, rules: Sequence[PodSetRule], prefix: str, errors: list[FieldError]
) -> Iterator[Pods]:
    for rule in rules:
        if rule.when and find(whole, rule.when) is None:
            continue
        if rule.unless and find(whole, rule.unless) is not None:
            continue
        if not rule.each:
            yield from _one(whole, rule, prefix, errors)
            continue
        items = find(whole, rule.each)
        if items is not None and not isinstance(items, list):
            errors.append(type_invalid(prefix + rule.each, plain(items), "expected list"))
            continue
        for i, item in enumerate(items or ()):
            yield from _one(item, rule, f"{prefix}{rule.each}[{i}].", errors)


def _one(value: Any, rule: PodSetRule, prefix: str, errors: list[FieldError]) -> Iterator[Pods]:
    path = rule.template or rule.resources
    written = find(value, path)
    if written is None:
        if rule.each:
            errors.append(required(prefix + path))
        return
    before, field = len(errors), prefix.removesuffix(".") if path == ITSELF else prefix + path
    template = (as_template if rule.template else _as_resources)(written, field, errors)
    name = rule.name
    if rule.name_from:
        found = find(value, rule.name_from)
        if isinstance(found, str) and found:
            name = found.lower()
        else:
            errors.append(required(prefix + rule.name_from, "the name of its pods"))
    count, at = _count(value, rule, prefix, errors)
    least = _number(value, rule.min_count, prefix, errors) if rule.min_count else None
    if template is not None and len(errors) == before:
        yield Pods(name, count, template, field, at, least, prefix + rule.min_count)


def _count(value: Any, rule: PodSetRule, prefix: str, errors: list[FieldError]) -> tuple[int, str]:
    """Return how many pods there are, and the field that says so, as far as one does."""
    count = 1
    for path in rule.count:
        found = _number(value, path, prefix, errors)
        count *= rule.otherwise if found is None else found
    if not rule.count:
        count = rule.otherwise
    most = _number(value, rule.at_most, prefix, errors) if rule.at_most else None
    count = count if most is None else min(count, most)
    count = max(0, count - rule.fewer)
    for path in rule.times:
        found = _number(value, path, prefix, errors)
        count *= 1 if found is None else found
    at = prefix + next(iter([*rule.count, *rule.times]), rule.template or rule.resources)
    if count > _MOST:
        errors.append(invalid(at, count, f"must be at most {_MOST} pods"))
    return count, at


def _number(value: Any, path: str, prefix: str, errors: list[FieldError]) -> int | None:
    found = find(value, path)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int):
        errors.append(type_invalid(prefix + path, plain(found), f"expected integer, got {_word(found)}"))
        return None
    if not 0 <= found <= _MOST:
        errors.append(invalid(prefix + path, found, f"must be between 0 and {_MOST}"))
        return None
    return found


_WORDS: Mapping[type, str] = {str: "string", bool: "boolean", float: "number", list: "list", dict: "mapping"}


def _word(value: object) -> str:
    return _WORDS.get(type(value), type(value).__name__)


def as_template(written: Any, field: str, errors: list[FieldError]) -> PodTemplateSpec | None:
    """Return a pod template, or None and add what is wrong with its shape."""
    value = _walk.without_nulls(written)
    if isinstance(value, dict):
        # Of a pod, also what it is; of all, what only Kubernetes has a use for.
        value = {key: item for key, item in value.items() if key in ("metadata", "spec")}
    return _convert(value, PodTemplateSpec, field, errors)


def _as_resources(written: Any, field: str, errors: list[FieldError]) -> PodTemplateSpec | None:
    found = _convert(_walk.without_nulls(written), ResourceRequirements, field, errors)
    return None if found is None else template_of(found)


def template_of(resources: ResourceRequirements) -> PodTemplateSpec:
    """Return a pod of one container that asks for this."""
    return PodTemplateSpec(spec=PodSpec(containers=[Container(name="main", resources=resources)]))


def _convert[T: msgspec.Struct](value: Any, kind: type[T], field: str, errors: list[FieldError]) -> T | None:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        wrong = _walk.shape_errors(value, kind) or [invalid("", plain(value), str(error))]
        errors.extend(msgspec.structs.replace(one, field=_joined(field, one.field)) for one in wrong)
        return None


def _joined(field: str, rest: str) -> str:
    return f"{field}.{rest}" if field and rest and not rest.startswith("[") else field + rest


def _wrapped(job: MappedJob, errors: list[FieldError]) -> list[Pods]:
    """Return the pods of an AppWrapper's components, named and numbered as its own."""
    found: list[Pods] = []
    components = job.spec.get("components")
    if not isinstance(components, list) or not components:
        errors.append(required("spec.components", "the objects that it wraps"))
        return []
    for i, component in enumerate(components):
        place = f"spec.components[{i}]"
        template = component.get("template") if isinstance(component, dict) else None
        if not isinstance(template, dict):
            errors.append(required(f"{place}.template", "the object that it wraps"))
            continue
        declared = component.get("podSets")
        if declared:
            found += _declared(component, declared, f"{place}.", errors)
            continue
        key = str(template.get("apiVersion")), str(template.get("kind"))
        rules = WRAPPED.get(key)
        if rules is None and key in MAPPED:
            rules = MAPPED[key].mapping.pod_sets
        found += _by_rules(template, rules or (), f"{place}.template.", errors)
    if not found and not errors:
        errors.append(required("spec.components", "pods: none of the components has any that are known of"))
    return [replace(pods, name=f"{job.metadata.name}-{i}") for i, pods in enumerate(found)]


def _declared(component: Any, declared: Any, prefix: str, errors: list[FieldError]) -> Iterator[Pods]:
    if not isinstance(declared, list):
        errors.append(type_invalid(f"{prefix}podSets", plain(declared), "expected list"))
        return
    for i, each in enumerate(declared):
        path = each.get("path") if isinstance(each, dict) else None
        if not isinstance(path, str) or find(component, path) is None:
            errors.append(invalid(f"{prefix}podSets[{i}].path", plain(path), "leads to no pod template"))
            continue
        found = list(_one(component, PodSetRule(name="of-a-component", template=path), prefix, errors))
        number = _number(each, "replicas", f"{prefix}podSets[{i}].", errors)
        yield from (
            replace(pods, count=1 if number is None else number, count_field=f"{prefix}podSets[{i}].replicas")
            for pods in found
        )


def _group(job: MappedJob, errors: list[FieldError]) -> list[Pods]:
    """Return the pods of a group, those of the same role together, as Kueue's role hash takes them."""
    written = job.spec.get("pods")
    if not isinstance(written, list) or not written:
        errors.append(required("spec.pods", "the pods of the group"))
        return []
    roles: dict[bytes, Pods] = {}
    for i, pod in enumerate(written):
        field = f"spec.pods[{i}]"
        template = as_template(pod, field, errors)
        if template is None:
            continue
        role = msgspec.msgpack.encode(_shape(template.spec), order="deterministic")
        known = roles.get(role)
        roles[role] = replace(known, count=known.count + 1) if known else Pods("", 1, template, field, field)
    before = len(errors)
    total = _number({"spec": job.spec}, "spec.totalCount", "", errors)
    if total is not None and total != len(written):
        if job.spec.get("fastAdmission") is True and len(roles) == 1:
            roles = {role: replace(pods, count=total) for role, pods in roles.items()}
        elif len(errors) == before:
            text = f"the group has {len(written)} pods here: submit them all at once"
            errors.append(invalid("spec.totalCount", total, text))
    names = ["main"] if len(roles) == 1 else [f"role-{i}" for i in range(len(roles))]
    return [replace(pods, name=name) for name, pods in zip(names, roles.values(), strict=True)]


def _shape(pod: PodSpec) -> Any:
    def containers(found: Sequence[Container]) -> Any:
        return [(one.resources, one.ports, one.restart_policy) for one in found]

    return (
        containers(pod.init_containers),
        containers(pod.containers),
        pod.node_selector,
        pod.affinity,
        pod.tolerations,
        pod.runtime_class_name,
        pod.priority,
        pod.topology_spread_constraints,
        pod.overhead,
        pod.resource_claims,
    )


def _spark(job: MappedJob, errors: list[FieldError]) -> list[Pods]:
    found: list[Pods] = []
    for role in spark_pods(job.spec, errors):
        before = len(errors)
        template = as_template(role.template, role.field, errors)
        if template is not None and len(errors) == before:
            found.append(Pods(role.name, role.count, template, role.field, role.count_field))
    return found


_BY_HAND: Mapping[tuple[str, str], Callable[[MappedJob, list[FieldError]], list[Pods]]] = {
    SPARK: _spark,
    APP_WRAPPER: _wrapped,
    POD_GROUP: _group,
}
"""Kinds whose pods no path leads to."""
