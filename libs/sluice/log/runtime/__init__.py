"""Runtime that makes a service of a decider: role, commits, snapshots, projections, health."""

__all__ = [
    "alarm",
    "background_fork",
    "bases",
    "clock",
    "config",
    "gc_tuning",
    "hooks",
    "leader_task",
    "lease",
    "presence",
    "process_pool",
    "projection",
    "question_pool",
    "replica",
    "service",
    "snapshot",
    "snapshot_info",
]
