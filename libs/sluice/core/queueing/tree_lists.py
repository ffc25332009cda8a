"""The lists of a tree: which queues take part in a cycle, for what, with parked classes of what size."""

from .pending_queue import CohortQueues, EquivalenceClass, PendingQueue, rank_of


def list_queue(tree: CohortQueues, queue: PendingQueue, listed: tuple[bool, bool, bool, bool]) -> None:
    """Put the queue on the lists of its tree, and off those, on which it is to be from now on or no more."""
    before, queue.listed = queue.listed, listed
    waits, ready, has_parked, special = listed
    if before is None or before[0] is not waits:
        _member(tree.waiting, queue, waits)
    if before is None or before[1] is not ready:
        _member(tree.ready, queue, ready)
    if before is None or before[2:] != listed[2:]:
        _member(tree.parked, queue, has_parked)
        _member(tree.special, queue, has_parked and special)
        _member(tree.wary, queue, special)


def _member(table: dict[str, PendingQueue], queue: PendingQueue, belongs: bool) -> None:
    if belongs:
        table[queue.name] = queue
    elif table:
        table.pop(queue.name, None)


def forget_shape(tree: CohortQueues, peers: EquivalenceClass) -> None:
    tree.shapes.discard(peers.least, rank_of(peers), peers)
    if not peers.common:
        left = tree.uncommon[peers.least] - 1
        if left:
            tree.uncommon[peers.least] = left
        else:
            del tree.uncommon[peers.least]
