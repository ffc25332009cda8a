"""An explanation as lines for people."""

from collections.abc import Iterable, Iterator

from sluice.replay.explain.checks import CheckNote
from sluice.replay.explain.report import Candidate, Report
from sluice.replay.views.pending_preemptions import pending_preemption_lines


def plain_words(report: Report) -> Iterable[str]:
    """Yield the report as lines for people."""
    who = f"Workload {report.workload}" + (f" (job {report.job})" if report.job else "")
    yield f"{who}, at sequence {report.seq}, {report.at}"
    rule = "" if report.rule in (report.phase, "Admitted") else f": {report.rule or 'no obstacle'}"
    yield f"  is {report.phase}{rule}"
    if report.message:
        yield f"  {report.message}"
    if report.replaces:
        yield f"  {report.meanwhile}"
    if report.position:
        yield f"  It is number {report.position} of {report.queue_size} in {report.cluster_queue}."
        if report.ahead:
            more = f" and {report.position - 1 - 5} more" if report.position - 1 > 5 else ""
            yield f"  Before it: {', '.join(report.ahead[:5])}{more}"
    if report.constraints:
        yield f"  It imposes on itself: {', '.join(report.constraints)}."
    if report.least and report.numbers:
        least = ", ".join(f"{name} at least {count}" for name, count in report.least.items())
        yield f"  It would run with fewer pods ({least})."
        yield "  The reason above is of the most that it could have, the numbers below are of all."
    if report.numbers:
        beyond = f" beyond its slice {report.replaces}" if report.replaces else ""
        yield ""
        for name, count in report.not_needed.items():
            yield f"  {count} of its pods of {name} can never run, as no completion is left for them."
        yield f"  What it asks for{beyond}, and what there is:"
        for n in report.numbers:
            if n.obstacle and report.note is not None:
                continue  # a variant is made for its flavors alone
            if n.obstacle:
                yield f"    {n.pod_set}: {n.requested} {n.resource}: {n.obstacle}"
                continue
            lack = f", short of {n.short}" if n.short != "0" else ", enough"
            promised = f", promised {n.promised}" if n.promised != "0" else ""
            shared = f" ({n.shared} of it with its siblings already)" if n.shared != "0" else ""
            others = " (not by it)" if "cannot-borrow" in report.constraints and n.borrowable != "0" else ""
            yield (
                f"    {n.pod_set}: {n.requested} {n.resource} of {n.flavor}{shared}: "
                f"nominal {n.nominal}, used {n.used}{promised}, borrowable {n.borrowable}{others}{lack}"
            )
    yield from _candidate_lines(report)
    if report.claims and report.phase == "Pending":
        yield ""
        yield "  Quota that is promised, for when pending preemptions have been made:"
        yield from (f"    {line}" for line in pending_preemption_lines(report.claims))
    if report.checks:
        yield ""
        yield "  What its admission checks say:"
        yield from (f"    {line}" for line in _check_lines(report.checks))
    if report.cells:
        yield ""
        yield "  In other cells:"
        yield from (f"    {note.words}" for note in report.cells)
    for variant in report.variants:
        yield ""
        yield from (f"  {line}".rstrip() for line in _variant_lines(variant))
    yield from _remedy_lines(report)


def _variant_lines(report: Report) -> Iterator[str]:
    """Yield what is to be said of one variant; its name stands for the workload's."""
    note = report.note
    lines = iter(plain_words(report))
    first = next(lines)
    yield (
        first.partition(", at sequence")[0].replace("Workload", "Variant", 1)
        if note is None
        else (f"Variant {note.name} ({', '.join(note.flavors)}): {report.workload}")
    )
    if note is not None:
        yield from (f"  {text}" for text in (note.gate, note.next) if text)
    yield from lines


def _remedy_lines(report: Report) -> Iterator[str]:
    if report.phase == "QuotaReserved" and report.remedies:
        yield ""
        yield "  What would admit it:"
        yield from (f"    {'→' if remedy.smallest else '-'} {remedy.text}" for remedy in report.remedies)
    elif report.phase == "QuotaReserved" and report.trials and not report.variants:
        yield ""
        yield "  As things are, it would give its quota up and queue again, even with all its checks Ready."
    # Of a racing job that is switched off nothing is tried: its message says what switches it on.
    untried = bool(report.variants) and not report.trials and report.phase == "Inactive"
    if (
        report.phase in ("Pending", "Inactive")
        and (report.note is None or report.note.active)
        and not untried
    ):
        yield ""
        if report.remedies:
            yield "  What would admit it (each one decided on a copy of this state):"
            for remedy in report.remedies:
                yield f"    {'→' if remedy.smallest else '-'} {remedy.text}"
        elif report.instead is not None:
            what, sibling = report.instead
            yield f"  Nothing that was tried would admit it before its sibling {sibling} ({what})."
        else:
            yield "  No single change that was tried would admit it."


def _candidate_lines(report: Report) -> Iterator[str]:
    if not report.candidates:
        return
    yield ""
    yield "  Who holds what is short:"
    groups: dict[tuple[str, str], list[Candidate]] = {}
    for c in report.candidates:
        groups.setdefault((c.cluster_queue, c.why), []).append(c)
    for (queue, why), members in groups.items():
        names = ", ".join(
            f"{c.workload} ({'; '.join(f'{v} {k}' for k, v in c.usage.items())})" for c in members[:3]
        )
        more = f" and {len(members) - 3} more" if len(members) > 3 else ""
        verdict = f"may not be preempted: {why}" if why else "may be preempted"
        yield f"    in {queue}: {names}{more}: {verdict}"
    if report.candidates_left_out:
        yield f"    and {report.candidates_left_out} more"


def _check_lines(checks: list[CheckNote]) -> list[str]:
    """Return the checks as lines for people."""
    found = []
    for check in checks:
        again = (
            f", after {check.retries} {'retry' if check.retries == 1 else 'retries'}" if check.retries else ""
        )
        text = (
            f"{check.name} ({check.controller}): {check.state} since {check.since}, "
            f"in attempt {check.attempt}{again}"
        )
        found.append(f"{text}: {check.message}" if check.message else text)
        if check.timeout_s:
            found.append(f"  not answered yet; Retry after {check.timeout_s} s")
        if check.absent:
            found.append(f"  nobody performs it: {check.absent}")
    return found
