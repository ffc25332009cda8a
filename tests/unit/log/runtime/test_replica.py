"""A replica without a log, a lease or a clock: what it folds, decides, and has to commit."""

import pytest

from sluice.events.commit import Step
from sluice.log.contract import Entry
from sluice.log.fold import Fold
from sluice.log.runtime.hooks import Hooks
from sluice.log.runtime.replica import Fenced, Replica
from tests.integration.log.bank import Bank, order


def inputs(*names):
    return [Entry(n, "job.default.x", n, order(name, 1)) for n, name in enumerate(names, 1)]


class Silent(Bank):
    def decide(self, state, at):  # noqa: ARG002
        return ()


def leader(hooks=(), decider=None, **options):
    replica = Replica(decider or Bank(), lambda entry: entry.payload == b"mine", hooks, **options)
    replica.begin(Fold(replica.decider))
    replica.lead()
    return replica


def settle(replica, at=100):
    while replica.decide(at) is not None:
        pass
    return replica


def test_what_is_decided_while_a_commit_is_in_flight_goes_out_with_the_next():
    replica = leader()
    replica.hear(inputs("a"))
    settle(replica)
    first = replica.take()
    replica.hear(inputs("a", "b", "c"))
    settle(replica)

    assert len(first) == 1
    assert not replica.idle
    assert [step.upto for step in replica.take()] == [3, 3]
    replica.written(4, first)
    assert replica.fold.own == 4


def test_own_commits_are_passed_over_and_anothers_end_the_life():
    replica = leader()
    assert replica.hear([Entry(1, replica.decider.writer, 1, b"mine")]) == 0
    with pytest.raises(Fenced):
        replica.hear([Entry(2, replica.decider.writer, 1, b"another's")])


def test_a_commit_ends_where_the_state_was_saved():
    """A snapshot is of the log only when a commit ends with the last step that it has."""
    replica = leader()
    replica.hear(inputs("a", "b"))
    settle(replica)
    moment = replica.moment()
    replica.cut_at(moment)
    replica.hear(inputs("a", "b", "c"))
    settle(replica)

    before = replica.take()
    assert len(before) == moment.steps == 2
    replica.written(4, before)
    assert len(replica.take()) == 1


def test_nothing_decided_is_said_in_the_end():
    """After many inputs without a decision a step without events says how far the leader has come."""
    replica = leader(mark_inputs=3, decider=Silent())
    replica.hear(inputs("a", "b", "c"))
    assert settle(replica).take() == [Step(upto=3, at=100)]


class Told(Hooks):
    def __init__(self):
        self.said = []

    def rebuilding(self, upto, own):  # noqa: ARG002
        self.said.append("rebuilding")

    def leading(self, state, own):  # noqa: ARG002
        self.said.append("leading")

    def decided(self, state, step):  # noqa: ARG002
        return step.upto

    def committed(self, state, steps, seq, effects):  # noqa: ARG002
        self.said.append((seq, effects))

    def following(self):
        self.said.append("following")


def test_hooks_hear_of_commits_with_the_effects_of_their_steps():
    """Nothing is let out before it is in the log, nor after the replica has stopped leading."""
    told = Told()
    replica = leader([told])
    replica.hear(inputs("a", "b"))
    settle(replica)
    steps = replica.take()
    replica.written(3, steps[:1])
    replica.end()
    replica.end()

    assert told.said == ["rebuilding", "leading", (3, [2]), "following"]
