"""An edit of a job that is refused: said beside what the job says of itself, and in its history."""

from typing import Any

from sluice.cli.commands.objects.describe_jobs import _refused
from sluice.core.views import View
from sluice.core.views import snapshot as views
from sluice.protocol.query import HistoryRequest
from sluice.readmodel import queries
from sluice.readmodel.objects import render
from sluice.readmodel.world import World
from tests.support.elastic_cell import ELASTIC, Cell
from tests.support.objects import OWN

CANNOT_BORROW = "kueue.x-k8s.io/cannot-borrow"


def shown(cell: Cell) -> World:
    api = World()
    api.fold(cell.log)
    return api


def status_of(cell: Cell) -> dict[str, Any]:
    found = render(shown(cell), "Job", "default/a")
    assert found is not None
    return dict(found["status"])


def submit(cell: Cell, replicas: int, **annotations: str) -> None:
    manifest = {
        "apiVersion": OWN,
        "kind": "Job",
        "metadata": {"name": "a", "namespace": "default", "annotations": {ELASTIC: "true", **annotations}},
        "spec": {"queueName": "left", "replicas": replicas, "resources": {"cpu": 1}, "command": ["true"]},
    }
    cell.message("a", "JobSubmitted", manifest)
    cell.settle()


def growing() -> Cell:
    """Return a cell in which a job that may not borrow runs with five pods, and is to have eight."""
    cell = Cell()
    cell.queue("left", 6)
    submit(cell, 5, **{CANNOT_BORROW: "true"})
    cell.scale("a", 8).settle()
    return cell


def test_a_refused_edit_does_not_take_the_place_of_the_jobs_message() -> None:
    """Reason and message belong together; the event that was refused stands by itself."""
    cell = growing()
    before = status_of(cell)
    submit(cell, 8)
    status = status_of(cell)
    assert {**status, "refused": None} == {**before, "refused": None}
    assert (status["reason"], status["message"][:18]) == ("ExceedsMaxQuota", "growth to 8 x main")
    field = f"metadata.annotations[{CANNOT_BORROW}]"
    assert status["refused"] == {
        "seq": cell.log[-2].seq,
        "event": "JobSubmitted",
        "message": f'{field}: Invalid value: "": field is immutable',
    }
    (line,) = _refused(status)
    assert line.startswith("Refused:")
    assert f"JobSubmitted (event {cell.log[-2].seq}): {field}" in line

    cell.scale("a", 9).settle()
    assert "refused" not in status_of(cell), "what was asked for since was taken"


def test_a_refused_edit_is_in_the_events_of_the_job() -> None:
    """Once, however often it is sent, so that what else happened stays in sight."""
    cell = growing()
    for _ in range(3):
        submit(cell, 8)
    cell.scale("a", -1).settle()
    found = queries.history(shown(cell), HistoryRequest(kind="Job", name="a", namespace="default", limit=20))
    refused = [item for item in found.items if item["reason"] == "Refused"]
    assert [item["message"].split(":")[0].split()[0] for item in refused] == ["JobSubmitted", "JobScaled"]
    assert all(item["type"] == "Warning" for item in refused)
    assert found.items[0]["reason"] == "WorkloadCreated"


def test_a_refusal_that_is_repeated_after_a_restart_counts_once() -> None:
    """What a snapshot leaves of the first one is the same as what the log says of the second."""
    cell = growing()
    submit(cell, 8)
    view, events = View(), cell.dated()
    for event, seq, at in events:
        view.apply(event, seq, at)
    successor = views.load(views.dump(view))
    views.with_histories(successor, views.dump_histories(view))
    submit(cell, 8)
    for event, seq, at in cell.dated()[len(events) :]:
        view.apply(event, seq, at)
        successor.apply(event, seq, at)
    assert views.dump(successor) == views.dump(view)
    assert views.dump_histories(successor) == views.dump_histories(view)
