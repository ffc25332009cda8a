"""Read model of a cell, as objects with status: a fold over the whole log, and questions to it.

The api service answers from it over the bus, and the console over HTTP, so both say the same. `world.World`
is the fold, `objects.render` an object as `sluice get -o json` prints it, and `follower.Follower` keeps a
world at the end of a running cell's log.
"""

__all__ = [
    "follower",
    "metrics",
    "objects",
    "queries",
    "quota_tree",
    "replicas",
    "scope",
    "selector",
    "snapshot",
    "world",
]
