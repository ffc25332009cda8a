"""Requests of a SparkApplication's driver and executors, as Spark computes them when it makes the pods.

As Kueue's `sparkapplication_resources.go`: a typed field wins over `sparkConf`, that over
`memoryOverheadFactor`. CPU is the role's coreRequest, else its cores, else 1. Memory is the role's, else 1g,
with an overhead of its own, else of a tenth (four tenths for Python and R), and of 384 MiB at least.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from sluice.api.errors import FieldError, invalid, plain, type_invalid

_UNITS: Final = {"": None, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_MEMORY: Final = re.compile(r"(\d{1,15})(?:([bkmgtp])b?)?")
_MIB: Final = 2**20
_LEAST_OVERHEAD_MIB: Final = 384


@dataclass(frozen=True, slots=True)
class Role:
    """Pods of a Spark application; the template is plain data, of a pod's shape if the user's parts are."""

    name: str
    count: int
    template: Any
    field: str
    count_field: str


@dataclass(frozen=True, slots=True)
class _Conf:
    """What says how large the pods of a role are."""

    name: str
    spec: dict[str, Any]
    own: dict[str, Any]
    conf: dict[str, Any]
    errors: list[FieldError]

    def typed(self, word: str, key: str) -> tuple[Any, str]:
        """Return a field of the role, or else the property that means the same; and where it stands."""
        if self.own.get(word) is not None:
            return self.own[word], f"spec.{self.name}.{word}"
        return self.conf.get(key), f"spec.sparkConf[{key}]"

    def mapping(self, value: Any, place: str) -> dict[str, Any]:
        if value is None or isinstance(value, dict):
            return value or {}
        self.errors.append(type_invalid(place, plain(value), "expected mapping"))
        return {}

    def items(self, value: Any, place: str) -> list[Any]:
        if value is None or isinstance(value, list):
            return value or []
        self.errors.append(type_invalid(place, plain(value), "expected list"))
        return []

    def mib(self, word: str, key: str, unit: int = _MIB) -> int | None:
        text, place = self.typed(word, key)
        return None if text is None else self.memory(text, place, unit)

    def memory(self, text: Any, place: str, unit: int = _MIB) -> int:
        found = _MEMORY.fullmatch(str(text).strip().lower())
        if found is None:
            self.errors.append(
                invalid(place, plain(text), "must be memory as Spark spells it, e.g. 512m or 2g")
            )
            return 0
        return int(found[1]) * (_UNITS[found[2] or ""] or unit) // _MIB


def spark_pods(spec: dict[str, Any], errors: list[FieldError]) -> Iterator[Role]:
    """Yield driver and executors; adds to the errors what cannot be read."""
    instances = _instances(spec, errors)
    for name, count, at in (("driver", 1, "spec.driver"), ("executor", instances, "spec.executor.instances")):
        own = spec.get(name)
        if own is not None and not isinstance(own, dict):
            errors.append(type_invalid(f"spec.{name}", plain(own), "expected mapping"))
            continue
        conf = spec.get("sparkConf")
        role = _Conf(name, spec, own or {}, conf if isinstance(conf, dict) else {}, errors)
        yield Role(name, count, _template(role), f"spec.{name}", at)


def _instances(spec: dict[str, Any], errors: list[FieldError]) -> int:
    executor = spec.get("executor")
    found = executor.get("instances") if isinstance(executor, dict) else None
    if found is None:
        return 0
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < 2**31:
        errors.append(invalid("spec.executor.instances", plain(found), "must be a number of pods"))
        return 0
    return found


def _template(role: _Conf) -> Any:
    own, at = role.own, f"spec.{role.name}"
    given = role.mapping(own.get("template"), f"{at}.template")
    metadata = dict(role.mapping(given.get("metadata"), f"{at}.template.metadata"))
    for word in ("labels", "annotations"):
        if own.get(word) is not None:
            inner = role.mapping(metadata.get(word), f"{at}.template.metadata.{word}")
            metadata[word] = {**inner, **role.mapping(own[word], f"{at}.{word}")}
    return {"metadata": metadata, "spec": _pod(role, given.get("spec"), f"{at}.template.spec")}


def _pod(role: _Conf, given: Any, place: str) -> dict[str, Any]:
    own, at = role.own, f"spec.{role.name}"
    pod = dict(role.mapping(given, place))
    name = f"spark-kubernetes-{role.name}"
    containers = [
        dict(role.mapping(one, f"{place}.containers[{i}]"))
        for i, one in enumerate(role.items(pod.get("containers"), f"{place}.containers"))
    ] or [{"name": name}]
    main = next((i for i, one in enumerate(containers) if one.get("name") == name), 0)
    resources = role.mapping(containers[main].get("resources"), f"{place}.containers[{main}].resources")
    containers[main]["resources"] = _resources(role, resources, f"{place}.containers[{main}].resources")
    pod["containers"] = [*containers, *role.items(own.get("sidecars"), f"{at}.sidecars")]
    for word in ("initContainers", "tolerations"):
        inner = role.items(pod.get(word), f"{place}.{word}")
        pod[word] = [*inner, *role.items(own.get(word), f"{at}.{word}")]
    selector = role.mapping(own.get("nodeSelector"), f"{at}.nodeSelector")
    if not selector:
        selector = role.mapping(role.spec.get("nodeSelector"), "spec.nodeSelector")
    pod["nodeSelector"] = {**role.mapping(pod.get("nodeSelector"), f"{place}.nodeSelector"), **selector}
    if own.get("affinity") is not None:
        pod["affinity"] = own["affinity"]
    return pod


def _resources(role: _Conf, given: dict[str, Any], place: str) -> dict[str, Any]:
    requests = dict(role.mapping(given.get("requests"), f"{place}.requests"))
    requests |= {"cpu": _cpu(role), "memory": f"{_memory_mib(role)}Mi"}
    limits = dict(role.mapping(given.get("limits"), f"{place}.limits"))
    gpu = role.mapping(role.own.get("gpu"), f"spec.{role.name}.gpu")
    name, quantity = gpu.get("name"), gpu.get("quantity")
    if isinstance(name, str) and name and quantity:
        limits[name] = quantity
    return {**given, "requests": requests, "limits": limits}


def _cpu(role: _Conf) -> Any:
    asked, _ = role.typed("coreRequest", f"spark.kubernetes.{role.name}.request.cores")
    if asked is not None:
        return asked
    cores, _ = role.typed("cores", f"spark.{role.name}.cores")
    return 1 if cores is None else cores


def _memory_mib(role: _Conf) -> int:
    memory = role.mib("memory", f"spark.{role.name}.memory")
    memory = 1024 if memory is None else memory
    overhead = role.mib("memoryOverhead", f"spark.{role.name}.memoryOverhead")
    if overhead is None:
        overhead = max(int(_factor(role) * memory), _LEAST_OVERHEAD_MIB)
    return memory + overhead + (_more_of_executors(role) if role.name == "executor" else 0)


def _factor(role: _Conf) -> float:
    keys = (f"spark.{role.name}.memoryOverheadFactor", "spark.kubernetes.memoryOverheadFactor")
    found = [(role.conf[key], f"spec.sparkConf[{key}]") for key in keys if role.conf.get(key) is not None]
    found.append((role.spec.get("memoryOverheadFactor"), "spec.memoryOverheadFactor"))
    text, place = found[0]
    if text is None or text == "":
        return 0.4 if role.spec.get("type") in ("Python", "R") else 0.1
    try:
        factor = float(text)
    except (TypeError, ValueError):
        factor = -1.0
    if not 0 <= factor <= 1_000_000:
        role.errors.append(invalid(place, plain(text), "must be a number that is not negative"))
        return 0.0
    return factor


def _more_of_executors(role: _Conf) -> int:
    """Return what Python, and memory outside of the heap, need on top."""
    more = 0
    key = "spark.executor.pyspark.memory"
    if role.conf.get(key) is not None and role.spec.get("type") == "Python":
        more += role.memory(role.conf[key], f"spec.sparkConf[{key}]")
    key = "spark.memory.offHeap.size"
    if str(role.conf.get("spark.memory.offHeap.enabled", "")).lower() == "true" and role.conf.get(key):
        more += role.memory(role.conf[key], f"spec.sparkConf[{key}]", 1)
    return more
