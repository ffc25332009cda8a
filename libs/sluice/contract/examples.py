"""One example of every wire struct, made from its types: the golden messages are built from these.

Deterministic, and complete: every field has a value that tells what belongs there, so a reader of the
contract sees the whole shape, and a decoder in another language can be tested against it.
"""

from typing import Any

import msgspec
from msgspec import inspect

_BY_NAME: dict[str, Any] = {
    "cause": 48210,
    "seq": 48213,
    "at": 1_767_225_600_000_000,
    "createdAt": 1_767_225_600_000_000,
    "requeueAt": 1_767_225_660_000_000,
    "workload": "team-a/job-train-3f9c1",
    "workloads": ["team-a/job-train-3f9c1"],
    "preemptor": "team-b/job-serve-77aa0",
    "parent": "team-a/job-train-3f9c1",
    "replaces": "team-a/job-train-1b2c3",
    "job": "team-a/train",
    "key": "team-a/train",
    "uid": "00000000-0000-bc55-8000-000000000000",
    "namespace": "team-a",
    "clusterQueue": "research",
    "localQueue": "team-a/research",
    "queueName": "research",
    "apiVersion": "batch/v1",
    "kind": "Job",
    "flavors": {"cpu": "on-demand"},
    "usage": {"cpu": 4000},
    "requests": {"cpu": 2000},
    "resources": {"cpu": 4000},
    "pods": {"main": 1},
    "podSets": {"main": 2},
    "exitCodes": {"main-0": 0},
    "field": "metadata.labels[kueue.x-k8s.io/queue-name]",
    "detail": "a queue name is required",
    "subject": "job.team-a.train",
    "executor": "agent-1",
    "check": "budget",
    "checks": ["budget"],
    "rule": "InClusterQueue",
    "preemptorPath": "/all/research",
    "preempteePath": "/all/research",
    "name": "main",
    "count": 2,
    "attempt": 1,
}


def example(cls: type) -> Any:
    """Return an instance of a wire struct with every field filled in."""
    built = _of(inspect.type_info(cls), "")
    return msgspec.json.decode(msgspec.json.encode(built), type=cls)


def _of(info: inspect.Type, name: str) -> Any:
    if isinstance(info, inspect.StructType):
        body = {f.encode_name: _field(f) for f in info.fields}
        if info.tag_field is not None:
            body[info.tag_field] = info.tag
        return body
    if isinstance(info, inspect.UnionType):
        options = [t for t in info.types if not isinstance(t, inspect.NoneType)]
        return _of(options[0], name)
    if isinstance(info, inspect.CustomType | inspect.RawType | inspect.AnyType):
        return {}
    if isinstance(info, inspect.LiteralType):
        return next(value for value in info.values if value)
    if isinstance(info, inspect.DictType):
        return {}
    if isinstance(info, inspect.CollectionType | inspect.VarTupleType):
        return [_of(info.item_type, name)]
    return _scalar(info, name)


def _scalar(info: inspect.Type, name: str) -> Any:
    if isinstance(info, inspect.BoolType):
        return True
    if isinstance(info, inspect.IntType):
        return 60 if name.endswith("S") else 1
    if isinstance(info, inspect.FloatType):
        return 1.0
    return name


def _field(field: inspect.Field) -> Any:
    """A hint by the field's name where it has the field's type, else something of that type."""
    if field.encode_name in _BY_NAME and _fits(field.type, _BY_NAME[field.encode_name]):
        return _BY_NAME[field.encode_name]
    return _of(field.type, field.encode_name)


def _fits(info: inspect.Type, value: Any) -> bool:
    if isinstance(info, inspect.UnionType):
        return any(_fits(option, value) for option in info.types)
    if isinstance(info, inspect.StrType):
        return isinstance(value, str)
    if isinstance(info, inspect.IntType):
        return isinstance(value, int)
    if isinstance(info, inspect.DictType):
        return isinstance(value, dict) and all(_fits(info.value_type, v) for v in value.values())
    if isinstance(info, inspect.CollectionType | inspect.VarTupleType):
        return isinstance(value, list) and all(_fits(info.item_type, v) for v in value)
    return False
