"""The flavors that were looked at for a workload, as Kueue writes them into events."""

from sluice.core.flavors.assignment import Assignment, Attempt, Mode
from sluice.core.preemption.targets import Possibility

_POSSIBILITY = {
    Possibility.NO_CANDIDATES: "NoCandidates",
    Possibility.PREEMPT: "Preempt",
    Possibility.RECLAIM: "Reclaim",
}


def attempts_text(assignment: Assignment) -> str:
    """Return the flavors that were looked at; '' when all fit."""
    parts = []
    for result in assignment.pod_sets:
        texts = [_attempt_text(a) for a in result.attempts if a.mode is not Mode.FIT or a.borrow]
        if texts:
            parts.append(f"{result.name}: {', '.join(texts)}")
    return " | ".join(parts)


def _attempt_text(attempt: Attempt) -> str:
    if attempt.possibility is None:
        parts = [("NoFit", "Preempt", "Fit")[attempt.mode]]
    else:
        parts = [f"preemptionMode={_POSSIBILITY[attempt.possibility]}"]
    if attempt.borrow:
        parts.append(f"borrow={attempt.borrow}")
    return f"{attempt.flavor}({';'.join((*parts, *attempt.reasons))})"
