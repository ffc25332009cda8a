"""What makes a running service of a decider: role, commits, snapshots, projections, health."""
