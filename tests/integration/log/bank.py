"""A toy decider: a bank. Orders come from outside, transfers and refusals go into the log.

Uses events of the scheduler's catalogue as its vocabulary, since the codec knows no others:
Admitted = order carried out, Evicted = order refused, Requeued = interest paid at a deadline.
"""

import json
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from sluice.events.base import WorkloadKey
from sluice.events.envelope import Message
from sluice.events.scheduler import Admitted, Evicted, Requeued

INTEREST_US = 50_000_000


@dataclass
class State:
    balance: int = 0
    orders: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Work list: seq -> (name, amount)."""
    done: dict[str, int] = field(default_factory=dict)
    """How often each order was carried out: more than once is a double decision."""
    refused: int = 0
    interest_at: int | None = None
    interests: int = 0
    trace: int = 0
    """Depends on the order of everything folded: two states are equal only if it was the same."""


class Bank:
    writer: ClassVar[str] = "scheduler"
    reads: ClassVar[frozenset[str]] = frozenset({"job.>", "config"})
    state_version: ClassVar[int] = 1

    def initial(self) -> State:
        return State()

    def apply(self, state, event, seq, at):
        name = type(event).__name__
        state.trace = (state.trace * 31 + seq + len(name)) % (1 << 61)
        match event:
            case Message():
                order = json.loads(event.payload)
                state.orders[seq] = (order["name"], order["amount"])
            case Admitted():
                name, amount = state.orders.pop(event.cause)
                state.balance += amount
                state.done[name] = state.done.get(name, 0) + 1
                if state.interest_at is None:
                    state.interest_at = at + INTEREST_US
            case Evicted():
                state.orders.pop(event.cause)
                state.refused += 1
            case Requeued():
                state.interests += 1
                state.interest_at = None

    def decide(self, state, at):
        for seq, (name, amount) in state.orders.items():
            if state.balance + amount < 0:
                return (Evicted(cause=seq, workload=name, reason="Overdrawn"),)
            return (Admitted(cause=seq, workload=name),)
        if state.interest_at is not None and at >= state.interest_at:
            return (Requeued(cause=0, workload=WorkloadKey("bank"), reason="Interest"),)
        return ()

    def deadline(self, state):
        return state.interest_at

    def dump(self, state):
        return msgspec.json.encode(vars(state) | {"orders": sorted(state.orders.items())}, order="sorted")

    def load(self, data):
        plain = msgspec.json.decode(data)
        plain["orders"] = {seq: (name, amount) for seq, (name, amount) in plain["orders"]}
        return State(**plain)


def order(name: str, amount: int = 1) -> bytes:
    return json.dumps({"name": name, "amount": amount}).encode()


class Accounts:
    """The projection of the bank: who was served how often; refused ones have no key."""

    bucket = "accounts"

    def changes(self, state, step):
        for event in step.events:
            match event:
                case Admitted(workload=name):
                    yield name, b'{"times":%d}' % state.done[name]
                case Evicted(workload=name):
                    yield name, None

    def everything(self, state):
        for name, times in state.done.items():
            yield name, b'{"times":%d}' % times
