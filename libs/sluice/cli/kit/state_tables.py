"""States and differences as lines for people."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from sluice.replay.views.text import check_line, plain_text, remark

from .table import aligned

SHOWN = 40
"""Lines per kind; JSON has all."""
COUNTED = 2_000
"""Of up to so many objects it is counted how many lines they would be."""

Plain = dict[str, Any]


# A whole cell


def state_lines(found: Mapping[str, Any], seq: int, at: str) -> Iterator[str]:
    """Yield an overview (`overview.overview`): queues, jobs that are not over, numbers of the rest."""
    yield f"State after sequence {seq}, {at}"
    yield ""
    yield from queue_lines(found["clusterQueues"])
    if found.get("live"):
        yield ""
        yield from job_lines(found["live"])
    if found.get("more"):
        yield "... and more that are not over: `--show jobs`"
    yield ""
    if "jobs" in found:
        yield f"Jobs: {_counts(found['jobs'])}"
    yield f"Workloads: {_counts(found['workloads'])}"
    if found["families"]["count"]:
        yield f"Families of variants: {found['families']['count']}; variants: " + _counts(
            found["families"]["variants"]
        )
    if "jobs" not in found:
        yield "The log is long: `--show jobs`, slices, variants, checks or a NAME has the rest."
        return
    if found["sliced"]["count"]:
        growing = found["sliced"]["growing"]
        yield f"Elastic jobs: {found['sliced']['count']}, {growing} with a slice that waits"
    for name, check in found["checks"].items():
        yield f"AdmissionCheck {name}: {check_line(check)}"
    for name, who in found["presence"].items():
        if not who["present"]:
            yield f"{name}: lost since {who['since']}{remark(who.get('message'))}"


def queue_lines(queues: Mapping[str, Plain]) -> list[str]:
    """Return one line per queue, flavor and resource."""
    rows = [("QUEUE", "FLAVOR/RESOURCE", "NOMINAL", "USED", "BORROWED", "FREE", "PENDING", "ADMITTED")]
    for name, queue in queues.items():
        counts = (str(queue["pending"]), str(queue["admitted"]))
        label = f"{name} (inactive)" if "inactive" in queue else name
        quota = queue["quota"] or {"-": dict.fromkeys(("nominal", "used", "borrowed", "available"), "-")}
        for fr, row in quota.items():
            used = f"{row['used']} (+{row['promised']} promised)" if "promised" in row else row["used"]
            amounts = (row["nominal"], used, row["borrowed"], row["available"])
            rows.append((label, fr, *amounts, *counts))
            label, counts = "", ("", "")
    return aligned(rows, right=range(2, 8))


def job_lines(jobs: Mapping[str, Plain]) -> list[str]:
    """Return one line per job."""
    rows = [("JOB", "PHASE", "QUEUE", "PODS", "FLAVORS", "WHY")]
    rows += [(key, *_job(found)) for key, found in jobs.items()]
    return aligned(rows, right=(3,))


def _job(found: Plain) -> tuple[str, str, str, str, str]:
    why = found.get("reason", "")
    if variants := found.get("variants"):
        why = f"{why}; " if why else ""
        why += ", ".join(f"{name} {phase}" for name, phase in variants.items())
    return (
        found["phase"],
        found.get("clusterQueue", "-") or "-",
        str(found.get("pods", 0)),
        ",".join(found.get("flavors", ())) or "-",
        why or found.get("message", "")[:60],
    )


def section_lines(name: str, found: Mapping[str, Any]) -> list[str]:
    """Return a whole section of a picture (`describe.SECTIONS`), one line per object."""
    match name:
        case "clusterQueues":
            return queue_lines(found)
        case "jobs":
            return job_lines(found)
        case "workloads":
            return aligned(_workload_rows(found), right=(3,))
        case "slices":
            return aligned(_slice_rows(found))
        case "variants":
            return aligned(_variant_rows(found))
        case "checks":
            rows = [(key, one.get("controller", "-"), check_line(one)) for key, one in found.items()]
            return aligned([("CHECK", "CONTROLLER", "STATE"), *rows])
    return aligned([(key, plain_text(one)) for key, one in found.items()])


def _workload_rows(found: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    yield "WORKLOAD", "PHASE", "QUEUE", "PRIORITY", "USAGE", "CHECKS", "WHY"
    for key, one in found.items():
        usage, checks = plain_text(one.get("usage")), plain_text(one.get("checks"))
        queue = one["clusterQueue"] or "-"
        yield key, one["phase"], queue, str(one["priority"]), usage, checks, one.get("reason", "")


def _slice_rows(found: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    yield "JOB", "SLICE", "PODS", "STATE", "REPLACES"
    for key, slices in found.items():
        for one in slices:
            yield key, one["name"], plain_text(one["pods"]), one["state"], one["replaces"] or "-"


def _variant_rows(found: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    yield "PARENT", "VARIANT", "FLAVORS", "PHASE", "ACTIVE", "GATE", "WHY"
    for key, family in found.items():
        for variant, one in family["variants"].items():
            gates = ",".join(one.get("gates", {}).values()) or "-"
            active = "yes" if one["active"] else "no"
            flavors = ",".join(one["flavors"])
            yield key, variant, flavors, one["phase"], active, gates, one.get("reason", "")


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {word}" for word, n in sorted(found.items())) or "none"


# Differences


def difference_lines(found: Mapping[str, Any], first: str, last: str) -> Iterator[str]:
    """Yield what changed between two states (`replay.views.diff.differences`), per kind."""
    yield f"From {first}"
    yield f"to   {last}"
    evicted = (f"{one['workload']}: {_times(one['times'])}" for one in found["evicted"])
    migrated = (
        f"{one['workload']}: {one['from']} → {one['to'] or '...'}, {one['at']}" for one in found["migrated"]
    )
    resized = (
        f"{one['job']}: {plain_text(one['before'])} → {plain_text(one['after'])}" for one in found["resized"]
    )
    said = (
        f"{one['workload']}: {one['check']} {one['before'] or '-'} → {one['after'] or '-'}"
        for one in found["checksChanged"]
    )
    blocks = (
        ("Jobs", _job_changes(found["jobs"]), _size(found["jobs"])),
        ("Admitted", (_key(key, found) for key in found["admitted"]), len(found["admitted"])),
        ("Evicted", evicted, len(found["evicted"])),
        ("Migrated", migrated, len(found["migrated"])),
        ("Resized", resized, len(found["resized"])),
        ("Finished", iter(found["finished"]), len(found["finished"])),
        ("Variants", _variant_changes(found["variants"]), _size(found["variants"])),
        ("Slices", _plain_changes(found["slices"]), _size(found["slices"])),
        ("Checks of workloads", said, len(found["checksChanged"])),
        ("Admission checks", _plain_changes(found["checks"]), _size(found["checks"])),
        (
            "Cluster queues",
            _plain_changes(found["clusterQueues"], hidden=("reserving",)),
            _size(found["clusterQueues"]),
        ),
        (
            "Agents and controllers",
            _plain_changes(found["presence"], hidden=("since", "message")),
            _size(found["presence"]),
        ),
        ("Configuration", _plain_changes(found["configuration"]), _size(found["configuration"])),
    )
    nothing = True
    for title, lines, size in blocks:
        page = list(_page(lines, size))
        if page:
            nothing = False
            yield ""
            yield f"{title}:"
            yield from (f"  {line}" for line in page)
    if nothing:
        yield "Nothing has changed."


def _page(lines: Iterator[str], size: int) -> Iterator[str]:
    """Yield the first lines, and how many more there are; of very many objects (*size*) not to the line."""
    yield from islice(lines, SHOWN)
    following = next(lines, None)
    if following is None:
        return
    if size <= COUNTED:
        yield f"... and {1 + sum(1 for _ in lines)} more: `-o json` has all"
    else:
        yield f"... and more, of up to {size}: `-o json` has all"


def _size(found: Mapping[str, Any]) -> int:
    """Return how many objects came, went and may have changed."""
    return sum(part.at_most for part in found.values())


def _key(key: str, found: Mapping[str, Any]) -> str:
    change = found["workloads"]["changed"].get(key, {}).get("phase")
    return key if change is None else f"{key} (was {change['before']})"


def _times(times: Mapping[str, int]) -> str:
    return ", ".join(reason if n == 1 else f"{reason} {n} times" for reason, n in times.items())


def _job_changes(found: Plain) -> Iterator[str]:
    yield from (f"+ {key}: {_state(job)}" for key, job in found["created"].items())
    yield from (f"- {key}: was {_state(job)}" for key, job in found["gone"].items())
    for key, fields in found["changed"].items():
        shown = [f"{k} {_change(c)}" for k, c in fields.items() if k.partition(".")[0] not in _VERBOSE]
        if shown:
            yield f"~ {key}: {', '.join(shown)}"


def _variant_changes(found: Plain) -> Iterator[str]:
    yield from _came_and_went(found)
    for key, fields in found["changed"].items():
        for path, change in fields.items():
            parts = path.split(".")
            if parts[0] == "variants" and parts[-1] in ("phase", "active"):
                yield f"~ {key}: {'.'.join(parts[1:-1])} {parts[-1]} {_change(change)}"


def _plain_changes(found: Plain, hidden: Sequence[str] = ()) -> Iterator[str]:
    yield from _came_and_went(found)
    for key, fields in found["changed"].items():
        shown = [f"{path} {_change(c)}" for path, c in fields.items() if path not in hidden]
        if shown:
            yield f"~ {key}: {', '.join(shown)}"


def _came_and_went(found: Plain) -> Iterator[str]:
    yield from (f"+ {key}" for key in found["created"])
    yield from (f"- {key}" for key in found["gone"])


def _state(job: Plain) -> str:
    phase, reason = str(job["phase"]), job.get("reason", "")
    return f"{phase} ({reason})" if reason and reason != phase else phase


_VERBOSE = ("message", "workload", "pods", "podSets", "executor")


def _change(change: Mapping[str, Any]) -> str:
    return f"{plain_text(change['before'])} → {plain_text(change['after'])}"
