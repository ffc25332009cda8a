"""The log: its contract, JetStream and memory behind it, and what makes a service of a decider."""

__all__ = [
    "cell",
    "commit_chain",
    "contract",
    "decider",
    "errors",
    "fold",
    "inflating",
    "memory",
    "nats",
    "runtime",
    "writer",
]
