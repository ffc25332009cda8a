"""Compares the outcome of a recorded reconcile of the core workload controller with ours."""

from collections.abc import Iterator

from .build_status import (
    EVENTS_OF_THE_REFERENCE,
    SECOND,
    Seen,
    Situation,
    conditions_of,
    seconds,
    situation_of,
)
from .framework import Json

DERIVED = ("QuotaReserved", "Admitted", "PodsReady")
"""Conditions that we show as False from the beginning; the reference writes them in a later reconcile."""

ONCE = ("AdmissionGated",)
"""Events that the reference says whenever it looks, and we when it begins to be so (G7)."""


def run_reconcile(case: Json) -> None:
    """Run the case's reconcile.

    Ours may go further in one step than one reconcile does, so the expectation has to hold at some point on
    the way; where the reference changes nothing it has to hold at the end.

    Raises:
        AssertionError: names the differences.
    """
    situation = situation_of(case)
    finished = "Finished" in situation.workload.conditions
    situation.run()
    expect = case["expect"]
    (before,) = case["input"]["Workload"]
    after = expect["wantWorkload"]
    wanted: list[Json] = expect.get("wantEvents") or []
    if after is None:
        after = before
    changes = _essence(before) != _essence(after) or bool(wanted)
    moments = situation.seen[1:] if changes and len(situation.seen) > 1 else situation.seen[-1:]
    found: list[list[str]] = [list(_differences(before, after, wanted, seen)) for seen in moments]
    nearest = sorted(found, key=_length)[0]
    if nearest:
        raise AssertionError("; ".join(nearest))
    if not finished:
        _compare_deadline(situation, expect)


def _length(differences: list[str]) -> int:
    return len(differences)


def _essence(manifest: Json) -> tuple[object, ...]:
    status = manifest.get("status") or {}
    conditions = {
        kind: (c["status"], c.get("reason"), c.get("message")) for kind, c in conditions_of(manifest).items()
    }
    return (conditions, status.get("admissionChecks"), status.get("requeueState"))


def _compare_deadline(situation: Situation, expect: Json) -> None:
    after_s = seconds((expect.get("wantResult") or {}).get("requeueAfter"))
    if after_s:
        deadline = situation.deadline()
        actual = None if deadline is None else (deadline - situation.now) / SECOND
        if actual != after_s:
            raise AssertionError(f"requeueAfter: expected {after_s} s, got {actual}")


def _differences(before: Json, after: Json, wanted: list[Json], seen: Seen) -> Iterator[str]:
    yield from _conditions(before, after, seen.manifest)
    expected, actual = after.get("status") or {}, seen.manifest.get("status") or {}
    for name, part in (
        ("admissionChecks", _checks),
        ("requeueState", _requeue_count),
        ("schedulingStats", _evictions),
        ("preemptionGates", _gates),
    ):
        want, got = part(expected), part(actual)
        if want != got and (want or name == "requeueState"):
            yield f"{name}: expected {want}, got {got}"
    events = [(e["type"], e["reason"], e["message"]) for e in wanted if e["reason"] not in ONCE]
    for e in wanted:
        if e["reason"] in ONCE and (e["type"], e["reason"], e["message"]) not in seen.said:
            yield f"events: expected {e['reason']}: {e['message']}"
    ours = [
        (n.type, n.reason, n.message)
        for n in seen.notices
        if n.reason in EVENTS_OF_THE_REFERENCE or n.reason.startswith("EvictedDueTo")
    ]
    if events != ours:
        yield f"events: expected {events}, got {ours}"


def _conditions(before: Json, after: Json, manifest: Json) -> Iterator[str]:
    past, expected, actual = conditions_of(before), conditions_of(after), conditions_of(manifest)
    for kind, want in expected.items():
        got = actual.get(kind)
        if got is None:
            yield f"{kind}: expected {want['status']}, got no such condition"
            continue
        fields = ["status", "reason", "message"]
        if want.get("observedGeneration"):
            fields.append("observedGeneration")
        if kind in past and all(past[kind].get(f) == want.get(f) for f in fields):
            # Untouched: in the words of the fixture, which are not ours.
            fields = ["status"]
        for name in fields:
            if want.get(name, "") != got.get(name, ""):
                yield f"{kind}.{name}: expected {want.get(name)!r}, got {got.get(name)!r}"
    for kind in actual.keys() - expected.keys():
        if kind not in DERIVED or actual[kind]["status"] != "False":
            yield f"{kind}: expected no such condition, got {actual[kind]}"


def _checks(status: Json) -> object:
    return [
        (
            c["name"],
            c["state"],
            c.get("message", ""),
            c.get("retryCount"),
            c.get("requeueAfterSeconds"),
        )
        for c in status.get("admissionChecks") or ()
    ]


def _requeue_count(status: Json) -> object:
    state = status.get("requeueState")
    return None if state is None else state.get("count") or 0


def _evictions(status: Json) -> object:
    stats = (status.get("schedulingStats") or {}).get("evictions") or ()
    return sorted((e["reason"], e.get("underlyingCause", ""), e["count"]) for e in stats)


def _gates(status: Json) -> object:
    return [(gate["name"], gate["position"]) for gate in status.get("preemptionGates") or ()]
