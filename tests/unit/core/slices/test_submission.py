"""The queue that a manifest names, for whoever must know it before anything else is known."""

import msgspec
import pytest

from sluice.api.errors import InvalidError
from sluice.core.slices.submission import queue_named_in
from tests.support.own_kinds import simulation


def test_of_a_teams_kind_it_is_found_whether_there_is_such_a_kind_or_not() -> None:
    """The gate holds teams to their queues by it, and knows no JobKinds."""
    data = msgspec.json.encode(simulation(queue="blue") | {"status": {}})
    assert queue_named_in(data) == ("blue", "metadata.labels[kueue.x-k8s.io/queue-name]")


def test_what_nobody_could_read_names_none() -> None:
    """A field beside `spec`, and kinds that can be no team's, are refused as the cell would."""
    for wrong in ({"mapping": {}}, {"apiVersion": "example.k8s.io/v1"}):
        with pytest.raises(InvalidError):
            queue_named_in(msgspec.json.encode(simulation() | wrong))
