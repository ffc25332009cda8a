"""what-if: nothing changed reproduces the record; changes show; what makes no sense is refused."""

import gzip
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from sluice.api import kueue
from sluice.cli.kit.run_text import compared_lines
from sluice.core.checks.decider import AdmissionChecks
from sluice.events.base import JobKey
from sluice.log.contract import Entry
from sluice.replay.simulate.changes import ChangeError, Changes, parse_setting
from sluice.replay.simulate.cluster_traces import TraceError, read_trace
from sluice.replay.simulate.inputs import Inputs, inputs_of
from sluice.replay.simulate.report import compared
from sluice.replay.simulate.what_if import what_if
from sluice.replay.source.source import FileSource, ListSource, Source
from tests.bench.recorded import Recorder
from tests.bench.scenario import BASELINE, SMOKE, Scenario
from tests.support.checked_cell import checked_cell
from tests.support.family_world import FamilyWorld, cell, cluster_queue, local_queue
from tests.support.objects import configuration, kueue_object
from tests.support.runs import play, recorded
from tests.unit.replay.incident import EXAMPLE
from tests.unit.replay.lint.test_invariants import CLASSES, elastic, families


def recorded_log(scenario: Scenario, events: int) -> ListSource:
    entries: list[Entry] = []
    Recorder(entries.append, scenario).play(events)
    return ListSource(entries)


class CheckedWorld(FamilyWorld):
    """With the admission-check service, and a controller that answers when told to."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.serve(AdmissionChecks())

    def answer(self, name: str, state: str, **more: Any) -> None:
        for key, tracked in self.services["checks"].state.workloads.items():
            held = tracked.reservation
            if name in key and held is not None:
                data = {"workload": key, "check": "slow", "attempt": held.attempt, "state": state, **more}
                self.message("verdict.example%2Ecom%2Fslow", "CheckVerdict", data)


def test_what_goes_on_for_ever_ends() -> None:
    """A check that nobody answers is tried again and again; what came of it is told."""
    world = checked_cell("slow")
    world.apply(configuration(admissionChecks={"answerTimeoutSeconds": 300}))
    world.submit("w").settle()
    world.run_until(1000)
    found = what_if(ListSource(world.log), Changes())
    replayed = found.runs[-1]
    assert 7 * 86_400 < replayed.covers_s < 8 * 86_400
    assert [run.cut_off is None for run in found.runs] == [True, False]
    assert replayed.cut_off is not None
    assert list(replayed.cut_off) == ["default/w"]
    text = "\n".join(compared_lines(found))
    assert "`replayed` was cut off: nothing more came from outside, and no job had finished for 7d" in text
    assert f"Not ended: default/w ({replayed.cut_off['default/w']})" in text
    assert compared(found)["runs"][1]["cutOff"] == {"notEnded": replayed.cut_off}


def test_a_run_that_comes_to_an_end_is_not_cut_off() -> None:
    """Though somebody waits: nothing would ever happen again."""
    world = cell(cluster_queue({"res": 1}))
    world.submit("fits").settle_all()
    world.submit("large", 2).settle_all()
    found = what_if(ListSource(world.log), Changes())
    assert [run.cut_off for run in found.runs] == [None, None]
    assert "cut off" not in "\n".join(compared_lines(found))


def checked() -> list[Entry]:
    """Three jobs: one passes its check after a retry, one at once, one never hears."""
    world = CheckedWorld()
    strategy = {"admissionChecks": [{"name": "slow"}]}
    world.apply(
        kueue_object("ResourceFlavor", "res"),
        kueue_object("AdmissionCheck", "slow", {"controllerName": "example.com/slow"}),
        cluster_queue({"res": 3}, {}, admissionChecksStrategy=strategy),
        local_queue(),
    )
    world.message("presence.controller.example%2Ecom%2Fslow", "Seen", {}).settle()
    for name in ("again", "quick", "never"):
        world.submit(name).settle(1)
    world.settle(5)
    world.answer("quick", "Ready")
    world.answer("again", "Retry", requeueAfterSeconds=30)
    world.settle_all()
    world.run_until(60)
    world.answer("again", "Ready")
    world.settle_all()
    world.settle(20)
    for name in ("again", "quick"):
        world.report(name, "JobFinished").settle_all(3)
    return world.log


LATE = kueue_object(
    "AdmissionCheck",
    "slow",
    {"controllerName": "example.com/slow", "preemptionPolicy": "AfterCheckPassedOrOnDemand"},
)


def claiming() -> list[Entry]:
    """One runs; a more urgent one has quota beside it until its check asks for the preemption."""
    world = CheckedWorld()
    world.apply(
        kueue_object("ResourceFlavor", "res"),
        LATE,
        cluster_queue(
            {"res": 3},
            {},
            preemption={"withinClusterQueue": "LowerPriority"},
            admissionChecksStrategy={"admissionChecks": [{"name": "slow"}]},
        ),
        local_queue(),
        *CLASSES,
    )
    world.message("presence.controller.example%2Ecom%2Fslow", "Seen", {}).settle()
    world.submit("runs", 2, priority_class="low").settle_all()
    world.answer("runs", "Ready")
    world.settle_all(3)
    world.submit("urgent", 2, priority_class="high").settle_all(3)
    world.submit("behind", 2, priority_class="low").settle_all(40)
    world.answer("urgent", "Pending", reason="PreemptionRequired")
    world.settle_all(3)
    world.answer("urgent", "Ready")
    world.settle_all(10)
    world.report("urgent", "JobFinished").settle_all(3)
    return world.log


LOGS: dict[str, Callable[[], Source]] = {
    "claiming": lambda: ListSource(claiming()),
    "checked": lambda: ListSource(checked()),
    "incident": lambda: FileSource(EXAMPLE),
    "smoke": lambda: recorded_log(SMOKE, 2500),
    "preemptions": lambda: recorded_log(replace(BASELINE, cohorts=2), 4000),
    "families": lambda: ListSource(families()),
    "elastic": lambda: ListSource(elastic()),
}


@pytest.mark.parametrize("name", LOGS)
def test_nothing_changed_reproduces_the_record(name):
    """The re-run decides every step again, and the same in content and order."""
    found = what_if(LOGS[name](), Changes())

    assert found.same_decisions
    assert found.reproduced
    assert found.runs[0].collector.decisions
    assert sum(check.steps for check in found.followed) > 5


@pytest.mark.parametrize("name", list(LOGS))
def test_a_free_run_reproduces_the_record_too(name):
    """Where run times are recorded, and moments of decision: also without following the log."""
    source = LOGS[name]()
    free, _ = play(inputs_of(source))
    before = recorded(source).decisions

    assert free.decisions[: len(before)] == before
    assert name != "preemptions" or sum(free.collector.preempted.values()) > 100


def test_verdicts_come_as_they_did():
    """After the delay that the log has, in each attempt; who was never answered gets the usual answer."""
    found = what_if(ListSource(checked()), Changes(drops=["job/quick"]))
    collector = found.runs[2].collector
    named = {collector.name(key): life for key, life in collector.lives.items()}
    again = named["default/again"]
    assert again.admitted is not None
    assert 50 < (again.admitted - again.created) / 1e6 < 90
    assert found.runs[2].guessed == 1
    assert found.runs[2].numbers["evictions"] == {"AdmissionCheck": 1}


def test_pending_preemptions_wait_for_their_check_in_what_if_too():
    """With the policy quota comes before the preemption, as in the log; without it, after; used once."""
    source = ListSource(claiming())
    found = what_if(source, Changes([parse_setting("AdmissionCheck/slow.spec.preemptionPolicy=Anytime")]))
    quota_first = []
    for run in found.runs:
        assert run.numbers["preemptions"] == {"InClusterQueue": 1}
        assert run.numbers["admitted"] >= 2
        assert run.numbers["borrowedSeconds"] == {}
        kinds = [d[:2] for d in run.collector.decisions]
        preempted = kinds.index(("Preempted", "default/runs"))
        quota_first.append(kinds.index(("QuotaReserved", "default/urgent")) < preempted)
    assert quota_first == [True, True, False]


def test_from_a_point_on_what_was_before_stays():
    """Up to the change the log is followed step by step; the change shows behind it."""
    source = FileSource(EXAMPLE)
    path = "ClusterQueue/research.spec.resourceGroups.0.flavors.on-demand.resources.cpu.nominalQuota=32"
    rollout = next(e for batch in source.read() for e in batch if e.suffix == "job.default.api-rollout")
    changes = Changes([parse_setting(path)], since=rollout.at - 1)
    found = what_if(source, changes)
    record, replayed, changed = (run.collector for run in found.runs)

    assert sum(check.steps for check in found.followed) > 10
    assert record.decisions[:4] == replayed.decisions[:4] == changed.decisions[:4]
    assert not changed.preempted
    assert sum(replayed.preempted.values()) == 2


def test_a_change_that_changes_nothing_is_no_change():
    """A value set to what it is leaves the whole record as it was."""
    path = "ClusterQueue/research.spec.resourceGroups.0.flavors.on-demand.resources.cpu.nominalQuota=16"
    found = what_if(FileSource(EXAMPLE), Changes([parse_setting(path)]))
    assert [run.collector.decisions for run in found.runs][1:] == [found.runs[0].collector.decisions] * 2


def test_each_attempt_ends_as_it_did():
    """A job that was stopped twice stops as fast as it did each time, and a new incarnation runs anew."""
    world = cell(cluster_queue({"res": 1}, {}, preemption={"withinClusterQueue": "LowerPriority"}), *CLASSES)
    world.submit("slow", priority_class="low").settle()
    for number, seconds in enumerate((7, 31)):
        world.submit(f"high{number}", priority_class="high").settle()
        world.settle(seconds)
        world.obey()
        world.settle()
        world.settle(60)
        world.report(f"high{number}", "JobFinished").settle()
        world.settle(60)
    world.report("slow", "JobFinished").settle()
    inputs = inputs_of(ListSource(world.log))
    (run,) = inputs.runs[JobKey("default/slow")]
    waits = [run.answers(JobKey("default/slow"), n)[0].after_us // 1_000_000 for n in (1, 2)]
    assert waits == [7, 31]
    free, _ = play(inputs)
    assert sum(free.collector.preempted.values()) == 2


def test_a_larger_quota_ends_the_waiting():
    """With enough quota of its own, research is neither preempted nor waits."""
    path = "ClusterQueue/research.spec.resourceGroups.0.flavors.on-demand.resources.cpu.nominalQuota=64"
    found = what_if(FileSource(EXAMPLE), Changes([parse_setting(path)]))
    before, after = found.runs[1].numbers, found.runs[2].numbers

    assert sum(before["preemptions"].values()) == 2
    assert not after["preemptions"]
    assert after["waits"]["all"]["max"] < before["waits"]["all"]["max"]


def test_dropped_jobs_are_not_run():
    """Without the rollout nobody is preempted; from a later time on, what was before stays."""
    found = what_if(FileSource(EXAMPLE), Changes(drops=["job/api-rollout"]))
    assert found.runs[2].numbers["workloads"] == found.runs[1].numbers["workloads"] - 1
    assert not found.runs[2].numbers["preemptions"]


@pytest.mark.parametrize(
    "setting",
    [
        "nonsense",
        "ClusterQueue/nobody.spec.cohortName=a",
        "ClusterQueue/research.spec.noSuchField=1",
        "ClusterQueue/research.spec.queueingStrategy=Sometimes",
        "ClusterQueue/research.spec.resourceGroups.0.flavors.gold.resources.cpu.nominalQuota=1",
    ],
)
def test_settings_that_make_no_sense_are_refused(setting):
    """Each is a clear error, and nothing is run."""
    with pytest.raises(ChangeError):
        what_if(FileSource(EXAMPLE), Changes([parse_setting(setting)]))


def test_drops_of_what_is_not_there_are_refused():
    with pytest.raises(ChangeError, match="no such job"):
        what_if(FileSource(EXAMPLE), Changes(drops=["job/nobody"]))


SWF = "; MaxProcs: 8\n; UnixStartTime: 0\n" + "".join(
    f"{n} {n * 10} -1 100 4 -1 -1 4 -1 -1 1 1 1 -1 {n % 2} -1 -1 -1\n" for n in range(1, 7)
)


def test_swf_traces_run(tmp_path):
    """Six jobs of four cpus on eight: two at a time, so the last begins after two others."""
    path = tmp_path / "trace.swf.gz"
    path.write_bytes(gzip.compress(SWF.encode()))
    found = what_if(ListSource([]), Changes(), inputs=read_trace(path))

    assert found.runs[0].numbers["finished"] == 6
    assert found.runs[0].numbers["makespanSeconds"] == pytest.approx(310, abs=11)
    assert found.same_decisions is None


def test_sacct_output_runs(tmp_path):
    """Steps are left out, durations read in Slurm's own form."""
    path = tmp_path / "jobs.txt"
    path.write_text(
        "JobID|Submit|Elapsed|AllocCPUS|Partition|State\n"
        "1|2026-01-01T00:00:00|00:10:00|4|gpu|COMPLETED\n"
        "1.batch|2026-01-01T00:00:00|00:10:00|4|gpu|COMPLETED\n"
        "2|2026-01-01T00:01:00|1-00:00:00|2|gpu|FAILED\n"
    )
    inputs = read_trace(path, cpus=4)
    assert len(inputs.runs) == 2
    found = what_if(ListSource([]), Changes(), inputs=inputs)
    assert found.runs[0].numbers["waits"]["all"]["max"] == pytest.approx(540, abs=1)


@pytest.mark.parametrize(
    "text", ["", "hello\n", "JobID|Nothing\n1|2\n", "JobID|Submit|ElapsedRaw\n1|soon|5\n"]
)
def test_what_is_no_trace_is_refused(tmp_path, text):
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(TraceError, match="trace"):
        read_trace(path)


SACCT = """\
JobID|Partition|Submit|Start|Elapsed|ElapsedRaw|ReqCPUS|AllocCPUS|AllocTRES|State
1001|gpu|2026-03-02T08:00:00|2026-03-02T08:00:10|02:00:00|7200|16|16|cpu=16,gres/gpu=2,mem=64G,node=1|COMPLETED
1001.batch||2026-03-02T08:00:10|2026-03-02T08:00:10|02:00:00|7200|16|16|cpu=16,mem=64G,node=1|COMPLETED
1002_1|cpu|2026-03-02T08:05:00|2026-03-02T08:05:02|00:30:00|1800|4|4|cpu=4,mem=8000M,node=1|FAILED
1002_[3-10]|cpu|Unknown|Unknown|00:00:00|0|4|0||PENDING
1003|cpu|2026-03-02T08:06:00|2026-03-02T08:10:00|1-01:00:00||1.5K|1.5K|cpu=1500,mem=6000G,node=24|TIMEOUT
1004|cpu|2026-03-02T08:07:00|None|00:00:00|0|8|0||CANCELLED by 1000
1005+0|gpu,cpu|2026-03-02T08:09:00|2026-03-02T08:10:00|10:00|600|2||cpu=2,gres/gpu:a100=4,mem=1T|OUT_OF_MEMORY
1006|gpu|2026-03-02T09:00:00|2026-03-02T09:00:10|00:10:00|600|16|16|cpu=16,gres/gpu=2|RUNNING
"""


def test_sacct_as_slurm_writes_it(tmp_path):
    """Arrays, units, GPUs, typed or not; what waits, runs, or was cancelled before it ran is left out."""
    path = tmp_path / "jobs.txt"
    path.write_text(SACCT)
    inputs = read_trace(path)
    asked = {
        item.suffix.rpartition(".")[2]: msgspec.json.decode(item.payload)["data"]["spec"]["resources"]
        for item in inputs.items
        if item.suffix != "config"
    }

    assert inputs.left_out == 3
    assert asked == {
        "j1001": {"cpu": 16, "nvidia.com/gpu": 2},
        "j1002-1": {"cpu": 4},
        "j1003": {"cpu": 1500},
        "j1005-0": {"cpu": 2, "nvidia.com/gpu": 4},
    }
    quotas = [sum(int(q.nominal_quota) for q in quotas) for quotas in zip(*resources_of(inputs), strict=True)]
    assert quotas == [1522, 6]
    found = what_if(ListSource([]), Changes(), inputs=inputs)
    assert found.runs[0].numbers["waits"]["all"]["max"] == 0
    assert found.runs[0].numbers["finished"] == 4


def resources_of(inputs: Inputs) -> list[Any]:
    events: list[Any] = [event for item in inputs.items for event in item.events]
    decoded = [
        msgspec.json.decode(e.object, type=kueue.ClusterQueue) for e in events if e.kind == "ClusterQueue"
    ]
    return [queue.spec.resource_groups[0].flavors[0].resources for queue in decoded]


def test_changes_that_change_nothing_are_named():
    """Somebody who set what stands there already is told so."""
    path = "ClusterQueue/research.spec.resourceGroups.0.flavors.on-demand.resources.cpu.nominalQuota="
    source = FileSource(EXAMPLE)
    same, other = (what_if(source, Changes([parse_setting(f"{path}{n}")])) for n in (16, 17))
    since = next(e.at for entries in source.read(20) for e in entries)
    assert what_if(source, Changes([parse_setting(f"{path}16")], since=since)).changes_nothing

    assert any("change nothing" in line for line in compared_lines(same))
    assert not any("change nothing" in line for line in compared_lines(other))


def test_who_was_never_admitted_is_counted():
    """Waits are of those who were admitted: without a queue nobody is, and no wait looks like a good one."""
    found = what_if(FileSource(EXAMPLE), Changes(drops=["ClusterQueue/research"]))

    assert [run.numbers["neverAdmitted"] for run in found.runs] == [0, 0, 6]
    assert any(line.startswith("never admitted") for line in compared_lines(found))


SPEC = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}}


def test_jobs_are_not_applied():
    """A manifest that nothing would come of is refused."""
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": SPEC}
    with pytest.raises(ChangeError, match="jobs are submitted, not applied"):
        what_if(FileSource(EXAMPLE), Changes([], [manifest], []))
