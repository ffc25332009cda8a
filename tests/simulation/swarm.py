"""What a run has and what not: each seed switches a random part off, and weighs the rest in its own way."""

from dataclasses import dataclass, fields

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
    late_stops: bool = True
    """Executors that take their time."""
    slow_services: bool = True
    garbage: bool = True
    """Messages that cannot be taken."""
    queries: bool = True
    bursts: bool = True
    limit_ranges: bool = True
    """Of the namespace, which fill in and forbid; and jobs that say less. See `run.LIMITED_EVERY`."""


FEATURES = tuple(each.name for each in fields(Features))


def features(choices: Choices) -> Features:
    """Switch a random part off; some runs have nearly everything, some next to nothing."""
    share = choices.pick((0.7, 0.3, 0.5, 0.85, 0.95, 0.15))
    drawn = [name for name in FEATURES if name != "limit_ranges"]
    return Features(**{name: choices.chance(share) for name in drawn}, limit_ranges=False)


__all__ = ["FEATURES", "Features", "features"]
