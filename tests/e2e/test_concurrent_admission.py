"""The stories of concurrent admission, each on a real server with real agents and processes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.check_controllers import Controller, silent
from tests.support.command import sluice
from tests.support.objects import kueue_object
from tests.support.system import ROOT, System
from tests.support.waiting import stays_so, wait_until

from .conftest import all_lead

pytestmark = pytest.mark.nats

EXAMPLES = ROOT / "examples" / "concurrent-admission"
PLAIN_JOB = (EXAMPLES / "story-1-job.yaml").read_text()


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with System(tmp_path_factory.mktemp("families")) as system:
        for service in ("api", "slice_aggregator", "variant_controller", "scheduler", "admission_check"):
            system.start(service)
        for name in ("one", "two"):
            work = system.directory / name
            env = {"AGENT_NAME": name, "AGENT_WORK_DIR": str(work), "AGENT_GRACE_S": "1"}
            system.start("agent", env, label=f"agent-{name}")
        with system.logs_of_failures():
            wait_until(lambda: all_lead(system))
        yield system


class Story:
    """One example: its queue applied, its job submitted under several names."""

    def __init__(self, cell: System, name: str, text: str = "", **replaced: str) -> None:
        self.cell, self.name = cell, name
        text = text or (EXAMPLES / f"{name}.yaml").read_text()
        for old, new in replaced.items():
            text = text.replace(old.removeprefix("s"), new)
        self.run("apply", "-f", "-", stdin=text)

    def run(self, *arguments: str, stdin: str = "") -> Any:
        return sluice(*arguments, stdin=stdin, env={"SLUICE_NATS_URL": self.cell.url}).ok()

    def submit(self, *names: str, spec: str = "", metadata: str = "") -> None:
        file = EXAMPLES / f"{self.name}-job.yaml"
        text = file.read_text() if file.exists() else PLAIN_JOB.replace("story-1", self.name)
        for name in names:
            job = text.replace(f"{{name: {self.name},", f"{{name: {self.name}-{name}, {metadata}")
            job = job.replace("spec:\n", f"spec:\n  {spec}\n")
            self.run("submit", "-f", "-", stdin=job)
            self.wait(lambda name=name: self.status(name).get("phase"))

    def status(self, name: str) -> dict[str, Any]:
        found = self.run("get", "job", f"{self.name}-{name}", "-o", "json").json
        return dict(found.get("status") or {})

    def on(self, name: str) -> list[str]:
        status = self.status(name)
        return list(status.get("flavors", ())) if status.get("phase") == "Running" else []

    def runs_on(self, name: str, *flavors: str) -> None:
        self.wait(lambda: self.on(name) == list(flavors))

    def wait(self, check: Any) -> Any:
        try:
            return wait_until(check)
        except AssertionError as error:
            text = self.run("describe", "jobs").out
            raise AssertionError(f"{error}\n{text}\n{self.cell.tail_logs()}") from error

    def delete(self, name: str) -> None:
        self.run("delete", "job", f"{self.name}-{name}")

    def variants(self, name: str) -> dict[str, bool]:
        """Return variant -> active, of a job."""
        items = self.run("get", "variants", "-o", "json").json["items"]
        parent = self.status(name)["workload"]
        return {
            item["status"]["variant"]: item["spec"].get("active", True)
            for item in items
            if item["metadata"]["ownerReferences"][0]["name"] == parent.rpartition("/")[2]
        }

    def logs(self, name: str) -> str:
        """Return what the job's processes wrote, on all agents, the oldest first."""
        files: list[Path] = []
        for agent in ("one", "two"):
            files += (self.cell.directory / agent).glob(f"default/{self.name}-{name}/*/*.log")
        files.sort(key=lambda path: int(path.parent.name))
        return "".join(path.read_text() for path in files)

    def stays(self, name: str, *flavors: str, seconds: float = 1.0) -> None:
        stays_so(lambda: self.on(name) == list(flavors), seconds)

    def clean(self, *names: str) -> None:
        """Delete the last jobs, and wait until nothing is left: another story may be told in this queue."""
        for name in names:
            self.delete(name)
        self.wait(lambda: f"job-{self.name}-" not in self.run("get", "wl", "-o", "name").out)


def test_story_1_upgrades_step_by_step(cell: System) -> None:
    """The job starts on on-demand and moves to the reservation: other processes, on the new flavor."""
    story = Story(cell, "story-1")
    story.submit("a", "b")
    story.runs_on("a", "reservation")
    story.runs_on("b", "on-demand")
    assert story.variants("b") == {"reservation": True, "on-demand": True, "spot": False}
    story.delete("a")
    story.runs_on("b", "reservation")
    story.wait(lambda: story.logs("b").splitlines() == ["running on on-demand", "running on reservation"])
    text = story.run("describe", "job", "story-1-b").out
    assert "Migrations:" in text
    assert "on-demand -> reservation  FlavorMigration" in text
    assert "└── " in text
    assert "FlavorMigration" in story.run("events", "job", "story-1-b").out or text
    rows = story.run("get", "variants").out
    assert "reservation" in rows
    story.clean("b")
    assert "story-1" not in story.run("get", "variants", "-o", "name").out


@pytest.mark.parametrize("name", ["story-2", "reservation-first"])
def test_story_2_moves_to_the_reservation_only(cell: System, name: str) -> None:
    story = Story(cell, name)
    story.submit("a", "b", "c")
    story.runs_on("b", "on-demand")
    story.runs_on("c", "spot")
    story.delete("b")
    story.stays("c", "spot")
    story.delete("a")
    story.runs_on("c", "reservation")
    story.clean("c")


def test_story_3_does_not_move_between_zones(cell: System) -> None:
    story = Story(cell, "story-3")
    story.submit("a", "b", "c")
    story.runs_on("c", "zone-b")
    story.delete("b")
    story.stays("c", "zone-b")
    story.delete("a")
    story.runs_on("c", "reservation")
    story.clean("c")


def test_story_4_stays_where_it_started(cell: System) -> None:
    story = Story(cell, "story-4")
    story.submit("a", "b")
    story.runs_on("b", "zone-b")
    assert story.variants("b") == {"zone-a": False, "zone-b": True, "zone-c": False}
    story.delete("a")
    story.stays("b", "zone-b")
    story.clean("b")


def test_story_5_waits_before_it_falls_back(cell: System) -> None:
    story = Story(cell, "story-5", s7200="2")
    story.submit("a", "b")
    story.runs_on("a", "reservation")
    assert story.variants("b") == {"reservation": True, "on-demand": False}
    assert story.on("b") == []
    story.runs_on("b", "on-demand")
    story.clean("a", "b")


def test_story_6_moves_in_the_beginning_only(cell: System) -> None:
    story = Story(cell, "story-6", s86400="1")
    story.submit("a", "b")
    story.runs_on("b", "on-demand")
    story.wait(lambda: story.variants("b") == {"reservation": False, "on-demand": True})
    story.delete("a")
    story.stays("b", "on-demand")
    story.clean("b")


def test_story_7_moves_one_of_two_resource_groups(cell: System) -> None:
    story = Story(cell, "story-7")
    story.submit("a", "b")
    story.runs_on("b", "default-cpu", "gpu-on-demand")
    story.delete("a")
    story.runs_on("b", "default-cpu", "gpu-reservation")
    story.clean("b")


def test_a_killed_controller_forgets_no_delay(cell: System) -> None:
    """Delays are deadlines in the log: they go on while nobody leads, and after a restart."""
    story = Story(cell, "story-5", s7200="3")
    story.submit("x", "y")
    story.runs_on("x", "reservation")
    (controller,) = cell.live("variant_controller")
    cell.kill(controller)
    cell.start("variant_controller")
    story.runs_on("y", "on-demand")
    story.clean("x", "y")


def test_zones_that_must_be_asked_are_asked_at_once(cell: System) -> None:
    """The example of Kueue's documentation: the zones' checks race, and the reservation is moved to."""
    story = Story(cell, "zones", s4="1")
    with Controller(cell.url, "example.com/capacity", silent) as zones:

        def asked() -> dict[str, Any]:
            return {r["assignment"][0]["flavors"]["cpu"]: r for r in list(zones.requests.values())}

        story.submit("a", "b")
        story.runs_on("a", "reservation")
        story.wait(lambda: sorted(asked()) == ["zone-a", "zone-b", "zone-c"])
        zones.say(asked()["zone-b"], "Ready")
        story.runs_on("b", "zone-b")
        # The others are not asked for any more, nor moved to.
        story.wait(lambda: set(asked()) <= {"zone-b"})
        story.stays("b", "zone-b")
        story.delete("a")
        story.runs_on("b", "reservation")
        story.wait(lambda: not asked())
        story.submit("c")
        story.wait(lambda: len(asked()) == 3)
        story.delete("c")
        story.wait(lambda: not asked())
        story.clean("b")


SMALL = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 1000
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: NAME-best}
spec: {}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: NAME-rest}
spec: {}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: NAME}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: NAME-best, resources: [{name: cpu, nominalQuota: 1}]}
    - {name: NAME-rest, resources: [{name: cpu, nominalQuota: 1}]}
  concurrentAdmissionPolicy: {migration: {mode: TryPreferredFlavors}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: NAME, namespace: default}
spec: {clusterQueue: NAME}
"""


def test_one_variant_preempts_through_its_gate(cell: System) -> None:
    """Of an urgent job one variant preempts; the victim moves back when it finds room, and all is told."""
    story = Story(cell, "gates", SMALL.replace("NAME", "gates"))
    story.submit("low-a")
    story.runs_on("low-a", "gates-best")
    story.submit("low-b")
    story.runs_on("low-b", "gates-rest")
    story.submit("urgent", spec="priorityClassName: urgent")
    story.runs_on("urgent", "gates-best")
    assert story.on("low-b") == ["gates-rest"]
    told = story.run("describe", "job", "gates-urgent").out
    for reason in ("CreatedVariant", "PreemptionUngatedVariant", "DeactivatedVariant", "Admitted"):
        assert reason in told, told
    assert "EvictedDueToVariantEvicted" in story.run("describe", "job", "gates-low-a").out
    story.delete("urgent")
    story.wait(lambda: story.on("low-a") or story.on("low-b") == ["gates-best"])
    story.clean("low-a", "low-b")


def test_a_flavor_that_is_taken_away_stops_the_job(cell: System) -> None:
    """CA13: the job stops, and goes on where there is room; its variants are those of the queue."""
    text = SMALL.replace("NAME", "edits")
    story = Story(cell, "edits", text)
    story.submit("a")
    story.runs_on("a", "edits-best")
    gone = text.replace("    - {name: edits-best, resources: [{name: cpu, nominalQuota: 1}]}\n", "")
    story.run("apply", "-f", "-", stdin=gone)
    story.runs_on("a", "edits-rest")
    assert story.variants("a") == {"edits-rest": True}
    told = story.run("describe", "job", "edits-a").out
    assert "EvictedDueToConcurrentAdmission" in told
    assert "No variant is running" in told
    assert "DeletedVariant" in told
    story.run("apply", "-f", "-", stdin=text)
    story.runs_on("a", "edits-best")
    story.clean("a")


def test_allowed_flavors_of_an_ordinary_job(cell: System) -> None:
    """The annotation that variants carry works for any job, without concurrent admission."""
    text = SMALL.replace("NAME", "allowed")
    plain = text.replace("  concurrentAdmissionPolicy: {migration: {mode: TryPreferredFlavors}}\n", "")
    story = Story(cell, "allowed", plain)
    note = "annotations: {kueue.x-k8s.io/workload-allowed-resource-flavors: allowed-rest},"
    story.submit("a", metadata=note)
    story.runs_on("a", "allowed-rest")
    story.clean("a")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"queueingStrategy": "StrictFIFO"}, "spec.queueingStrategy"),
        (
            {"concurrentAdmissionPolicy": {"migration": {"constraints": {"lastAcceptableFlavorName": "x"}}}},
            "lastAcceptableFlavorName",
        ),
    ],
)
def test_mistakes_name_their_field(cell: System, change: dict[str, Any], field: str) -> None:
    import json

    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": 1}]}],
    }
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [group],
        "concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors"}},
        **change,
    }
    queue = kueue_object("ClusterQueue", "wrong", spec)
    said = sluice("apply", "-f", "-", stdin=json.dumps(queue), env={"SLUICE_NATS_URL": cell.url})
    assert said.code != 0
    assert field in said.out + said.err
