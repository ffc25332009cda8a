"""Everything that speaks to NATS and JetStream."""
