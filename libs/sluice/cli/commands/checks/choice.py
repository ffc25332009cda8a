"""Choice of the workload of a job that an answer to a check is about.

A job may have several: the slice that runs and its growth, or one variant for each flavor. What is said of a
job is meant for the one that asks; what runs already is hit only when it is named, or the only one there is.
"""

from collections.abc import Sequence

from sluice.cli.kit.columns import dig
from sluice.cli.kit.errors import CliError
from sluice.protocol.query import Object

ENDED = ("Replaced", "Finished")
"""States of slices that nothing can be said of any more."""


def live_workloads(job: Object) -> list[str]:
    """Return the names of the job's workloads that are not over, oldest first."""
    slices = dig(job, "status", "slices", default=())
    found = [str(each["name"]) for each in slices if each["state"] not in ENDED]
    present = str(dig(job, "status", "workload", default=""))
    return found or ([present] if present else [])


def variants_of(workload: Object) -> list[str]:
    return [str(each["name"]) for each in dig(workload, "status", "variants", default=())]


def asking(named: str, check: str, workloads: Sequence[Object]) -> Object:
    """Return which of the workloads of *named* an answer to the check is for.

    Raises:
        CliError: several wait for an answer; or none does, and it is not clear which one is meant.
    """
    if len(workloads) == 1:
        return workloads[0]
    waiting = [each for each in workloads if why_not(each, check) == "" and state(each, check) == "Pending"]
    if len(waiting) == 1:
        return waiting[0]
    if not any(check in _checks(each) for each in workloads):
        if workloads and all(_without_quota(each) for each in workloads):
            # Which checks concern a variant depends on what it gets.
            raise CliError(f"{named} has no quota, so its checks are not being performed")
        names = sorted({name for each in workloads for name in _checks(each)})
        raise CliError(
            f"check {check!r} does not concern {named}", hint=f"It has {', '.join(names) or 'no checks'}."
        )
    shown = "; ".join(f"{_name(each)}: {_situation(each, check)}" for each in waiting or workloads)
    if waiting:
        raise CliError(
            f"{len(waiting)} workloads of {named} wait for check {check!r}",
            hint=f"Name one of them. {shown}.",
        )
    raise CliError(
        f"no workload of {named} waits for check {check!r}", hint=f"Name the one you mean. {shown}."
    )


def state(workload: Object, check: str) -> str:
    """Return what the check says of the workload, '' when it does not concern it."""
    return str(_checks(workload).get(check, {}).get("state", ""))


def why_not(workload: Object, check: str) -> str:
    """Return why nobody may answer now, '' when somebody may."""
    title, found = _name(workload), _checks(workload).get(check)
    if found is None:
        return f"check {check!r} does not concern {title}"
    if _without_quota(workload):
        return f"{title} has no quota, so its checks are not being performed"
    if not found.get("attempt") or not found.get("controller"):
        return f"check {check!r} of {title} has not been asked for yet"
    return ""


def known_of(workload: Object, check: str) -> Object:
    """Return what is known of the check of a workload that waits for it, or was admitted with it.

    Raises:
        CliError: the check does not concern the workload, or nobody may answer now.
    """
    checks = _checks(workload)
    if why := why_not(workload, check):
        hint = "" if check in checks else f"It has {', '.join(sorted(checks)) or 'no checks'}."
        raise CliError(why, hint=hint)
    return checks[check]


def _situation(workload: Object, check: str) -> str:
    """Return for people how a workload stands to the check."""
    if check not in _checks(workload):
        return "without this check"
    if _without_quota(workload):
        return "without quota"
    return state(workload, check)


def _without_quota(workload: Object) -> bool:
    return dig(workload, "status", "admission", default=None) is None


def _checks(workload: Object) -> dict[str, Object]:
    return {each["name"]: each for each in dig(workload, "status", "admissionChecks", default=())}


def _name(workload: Object) -> str:
    return str(workload["metadata"]["name"])
