"""what-if: nothing changed reproduces the record; changes show; what makes no sense is refused."""

import gzip

import pytest

from sluice.replay.changes import ChangeError, Changes, parse_setting
from sluice.replay.inputs_foreign import TraceError, read_trace
from sluice.replay.source import FileSource, ListSource
from sluice.replay.whatif import what_if
from tests.bench.recorded import Recorder
from tests.bench.scenario import SMOKE

from .incident import EXAMPLE


def test_nothing_changed_reproduces_the_record():
    """The free re-run in virtual time decides the same in content and order, and verify agrees."""
    entries = []
    Recorder(entries.append, SMOKE).play(2500)
    for source in (FileSource(EXAMPLE), ListSource(entries)):
        found = what_if(source, Changes())

        assert found.same_decisions
        assert found.identical


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
