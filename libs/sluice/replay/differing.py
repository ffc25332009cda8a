"""What changed between two pictures of a cell (`objects.picture`): per kind, and what happened to whom.

found = differences(picture(cell_at(source, 20).state), picture(cell_at(source, 40).state))
found["evicted"]                    # [{"workload": ..., "times": {"Preempted": 1}}]
found["jobs"]["changed"]            # {"default/train": {"phase": {"before": "Running", "after": "Queued"}}}
"""

from collections.abc import Iterator, Mapping
from typing import Any

Picture = Mapping[str, dict[str, Any]]

COMPARED = (
    "jobs",
    "workloads",
    "slices",
    "variants",
    "checks",
    "clusterQueues",
    "cohorts",
    "presence",
    "configuration",
)
"""Sections of a picture that are compared; what is left out follows from these."""


def differences(before: Picture, after: Picture) -> dict[str, Any]:
    """Return what was admitted, evicted, migrated, resized and so on, then what changed per section."""
    old, new = before["workloads"], after["workloads"]
    # What befalls a variant befalls its parent; it is listed with the workloads that changed.
    plain = {key: found for key, found in new.items() if "variant" not in found}
    return {
        "admitted": [k for k, w in plain.items() if _again(old.get(k), w, "admittedAt")],
        "evicted": list(_evicted(old, plain)),
        "migrated": list(_migrated(before["variants"], after["variants"])),
        "resized": list(_resized(before["jobs"], after["jobs"])),
        "finished": [k for k, w in plain.items() if _again(old.get(k), w, "finishedAt")],
        "checksChanged": list(_checks(old, new)),
        **{name: section(before[name], after[name]) for name in COMPARED},
    }


def section(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return what came and went, as it was, and for each key that stayed which of its fields changed."""
    return {
        "created": {key: found for key, found in after.items() if key not in before},
        "gone": {key: found for key, found in before.items() if key not in after},
        "changed": {
            key: dict(changes("", before[key], found))
            for key, found in after.items()
            if key in before and before[key] != found
        },
    }


def changes(path: str, before: Any, after: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (path, before and after) of each value that differs; members of lists by name or number."""
    before, after = _named(before), _named(after)
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(k for k in after if k not in before)]:
            if before.get(key) != after.get(key):
                yield from changes(f"{path}.{key}" if path else key, before.get(key), after.get(key))
    else:
        yield path, {"before": before, "after": after}


def _named(value: Any) -> Any:
    if not isinstance(value, list) or not value or not all(isinstance(v, dict) for v in value):
        return value
    if all("name" in member for member in value):
        return {member["name"]: {k: v for k, v in member.items() if k != "name"} for member in value}
    return {str(number): member for number, member in enumerate(value)}


def _again(before: Mapping[str, Any] | None, after: Mapping[str, Any], field: str) -> bool:
    return field in after and (before is None or before.get(field) != after[field])


def _evicted(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key, workload in new.items():
        times = workload.get("evictions", {})
        had = old.get(key, {}).get("evictions", {})
        more = {reason: n - had.get(reason, 0) for reason, n in times.items() if n > had.get(reason, 0)}
        if more:
            yield {"workload": key, "job": workload.get("job", ""), "times": more}


def _migrated(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key, family in new.items():
        had = old.get(key, {}).get("migrations", [])
        # One that was under way at first has its target now.
        known = [one for one in had if one["to"] is not None]
        for one in family["migrations"]:
            if one not in known and one["reason"] == "FlavorMigration":
                yield {"workload": key, **one}


def _resized(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key, job in new.items():
        had, has = old.get(key, {}).get("pods"), job.get("pods")
        if had is not None and has is not None and had != has:
            yield {"job": key, "before": had, "after": has}


def _checks(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key, workload in new.items():
        had, has = old.get(key, {}).get("checks", {}), workload.get("checks", {})
        for check in [*has, *(c for c in had if c not in has)]:
            if had.get(check) != has.get(check):
                yield {
                    "workload": key,
                    "check": check,
                    "before": had.get(check),
                    "after": has.get(check),
                }


__all__ = ["COMPARED", "Picture", "changes", "differences", "section"]
