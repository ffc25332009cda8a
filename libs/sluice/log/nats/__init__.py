"""Everything that speaks to NATS and JetStream."""

__all__ = [
    "blocking",
    "blocking_connection",
    "connection",
    "consumer",
    "jetstream",
    "jetstream_api",
    "kv",
    "nkeys",
    "objects",
    "protocol",
    "responder",
    "streams",
]
