"""Everything that speaks to NATS and JetStream."""

__all__ = ["blocking", "connection", "consumer", "jetstream", "kv", "objects", "protocol", "streams"]
