"""What happened to a job: its messages, and what came of each, refusals included."""

from sluice.replay.history.causes import history
from sluice.replay.source.source import ListSource
from tests.support.family_world import cell, cluster_queue, job


def kinds(world, name: str) -> list[str]:
    return [each.type for each in history(ListSource(world.log), [f"default/{name}"])]


def test_a_job_that_was_only_refused_has_its_refusal() -> None:
    world = cell(cluster_queue({"res": 1}, {}))
    world.submit("other").settle_all()
    world.message(
        "job.default.wrong", "JobSubmitted", {**job("wrong"), "spec": {"queueName": 7}}
    ).settle_all()
    assert kinds(world, "wrong") == ["JobSubmitted", "Rejected"]
    assert "Rejected" not in kinds(world, "other")


def test_a_message_that_changed_nothing_has_its_answer() -> None:
    world = cell(cluster_queue({"res": 1}, {}))
    for name in ("a", "b"):
        world.submit(name).settle_all()
    world.submit("a").settle_all()
    assert kinds(world, "a")[-2:] == ["JobSubmitted", "InputsIgnored"]
    assert "InputsIgnored" not in kinds(world, "b")
