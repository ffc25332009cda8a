"""What a run has and what not: each seed switches a random part off, and weighs the rest in its own way."""

from dataclasses import dataclass, field, fields

from .choices import Choices


@dataclass(slots=True)
class Features:
    """Parts of the world that can be absent."""

    cohorts: bool = True
    limits: bool = True
    fair_sharing: bool = True
    second_resource: bool = True
    second_group: bool = True
    racing: bool = True
    explicit_variants: bool = True
    delays: bool = True
    checks: bool = True
    check_policies: bool = True
    preemption: bool = True
    priorities: bool = True
    strict: bool = True
    stop_policies: bool = True
    elastic: bool = True
    partial: bool = True
    several_pod_sets: bool = True
    constraints: bool = True
    allowed_flavors: bool = True
    max_execution: bool = True
    reclaimable: bool = True
    pods_ready: bool = True
    inactive: bool = True
    gated: bool = True
    feature_gates: bool = True
    config_edits: bool = True
    repoint: bool = True
    deletions: bool = True
    resubmission: bool = True
    job_edits: bool = True
    flavor_choice: bool = True
    """Executors that serve some flavors only."""
    standby: bool = True
    """Two replicas of each service."""
    clustered: bool = True
    """Three servers keep log and buckets."""
    crashes: bool = True
    pauses: bool = True
    skews: bool = True
    snapshots: bool = True
    lost_answers: bool = True
    late_copies: bool = True
    gaps: bool = True
    executor_crashes: bool = True
    executor_cuts: bool = True
    shutdowns: bool = True
    lost_buckets: bool = True
    failures: bool = True
    controllers_away: bool = True
    rare_verdicts: bool = True
    updates: bool = True
    """Checks that add something to the pods."""
    late_stops: bool = True
    """Executors that take their time."""
    slow_services: bool = True
    garbage: bool = True
    """Messages that cannot be taken."""
    queries: bool = True
    bursts: bool = True
    large: bool = True
    """Messages that are too large, and some that are hardly not."""
    placement: bool = True
    """Labels, taints, selectors, affinity and tolerations of every kind."""
    view_snapshots: bool = True
    """The api's read model is put away and goes on from what was kept."""
    budgets: bool = True
    """One check is the budgets'."""
    limit_ranges: bool = True
    """Of the namespace, which fill in and forbid; and jobs that say less. See `run.LIMITED_EVERY`."""
    silent_executors: bool = True
    """One that takes jobs and never puts a heartbeat. See `run.SILENT_EVERY`."""
    undeclared: bool = True
    """Jobs that ask for what no queue has quota of, which counts or not. See `run.UNDECLARED_EVERY`."""
    theme: str = field(default="", kw_only=True)
    """What the world has more of than others, one of `THEMES`; '' for nothing."""


FEATURES: tuple[str, ...] = tuple(each.name for each in fields(Features) if each.name != "theme")

LATER = ("limit_ranges", "silent_executors", "undeclared")
"""What came when there were seeds already: every so many have it, the others draw what they drew before."""

THEMES: dict[str, tuple[str, ...]] = {
    "racing": (
        "racing",
        "explicit_variants",
        "second_resource",
        "second_group",
        "config_edits",
        "preemption",
        "priorities",
    ),
    "elastic": ("elastic", "job_edits", "late_stops", "checks", "rare_verdicts"),
    "preemption": ("preemption", "priorities", "cohorts"),
    "checks": ("checks", "check_policies", "rare_verdicts", "preemption", "priorities"),
    "partial": ("partial", "constraints", "cohorts", "preemption"),
}
"""Each with the features that it cannot do without."""


def features(choices: Choices) -> Features:
    """Switch a random part off; some runs have nearly everything, some next to nothing.

    Half of them have a theme, too: two rare things that must meet meet in few.
    """
    share = choices.pick((0.7, 0.3, 0.5, 0.85, 0.95, 0.15))
    found = Features()
    for name in FEATURES:
        setattr(found, name, name not in LATER and choices.chance(share))
    if choices.chance(0.5):
        found.theme = choices.pick(list(THEMES))
        for name in THEMES[found.theme]:
            setattr(found, name, True)
    return found


def theme_of(seed: int) -> str:
    """Return the theme of a seed's run."""
    choices = Choices(seed)
    choices.step()
    return features(choices).theme


def nothing() -> Features:
    """Return what a world without anything special has."""
    found = Features()
    for name in FEATURES:
        setattr(found, name, False)
    return found


__all__ = ["FEATURES", "THEMES", "Features", "features", "nothing", "theme_of"]
