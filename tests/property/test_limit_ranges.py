"""Limit ranges under any history: who waits is what they make of it now, who has quota is left alone."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.api.decode import decode_object
from sluice.core.slices.job_request import resources_of
from sluice.core.slices.limits import rules_of
from sluice.core.slices.state import Phase
from sluice.core.workload.limit_ranges import Rules
from sluice.events.base import JobKey
from sluice.events.config import ObjectDeleted
from tests.support.slices_world import World, manifest

NAMES = ("a", "b")
AMOUNTS = st.dictionaries(st.sampled_from(("cpu", "memory")), st.sampled_from((1, 2)))
RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})
ITEM = st.one_of(
    st.fixed_dictionaries({"type": st.just("Container"), "defaultRequest": AMOUNTS}),
    st.fixed_dictionaries(
        {"type": st.just("Container")}, optional={"max": AMOUNTS, "min": AMOUNTS, "default": AMOUNTS}
    ),
    st.fixed_dictionaries({"type": st.just("Pod")}, optional={"max": AMOUNTS, "min": AMOUNTS}),
)
EVENTS = ("admit", "admit", "stop", "stop", "reserve", "delete")
STEPS = st.one_of(
    st.tuples(st.just("limit"), st.sampled_from(("x", "y")), ITEM),
    st.tuples(st.just("drop"), st.sampled_from(("x", "y")), st.none()),
    st.tuples(st.just("submit"), st.sampled_from(NAMES), RESOURCES),
    st.tuples(st.just("scale"), st.sampled_from(NAMES), st.integers(1, 3)),
    st.tuples(st.sampled_from(EVENTS), st.sampled_from(NAMES), st.none()),
    st.tuples(st.sampled_from(EVENTS), st.sampled_from(NAMES), st.none()),
)


def job(name: str, resources: dict[str, Any], elastic: bool) -> dict[str, Any]:
    found = manifest(name)
    found["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
    if elastic:
        found["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    return found


@dataclass
class Limited(World):
    """Remembers the manifests by sequence, and checks what waits against the one in force."""

    written: dict[int, dict[str, Any]] = field(default_factory=dict)

    def do(self, what: str, name: str, given: Any) -> None:
        if what == "limit":
            self.apply_object("LimitRange", name, "default", spec={"limits": [given]})
        elif what == "drop":
            self.drop(name)
        elif what == "submit":
            self._submit(name, given)
        elif JobKey(f"default/{name}") in self.state.jobs:
            self._happens(what, name, given)

    def drop(self, name: str) -> None:
        self.put(ObjectDeleted(cause=0, kind="LimitRange", name=name, namespace="default"))
        self.settle()

    def _submit(self, name: str, resources: dict[str, Any]) -> None:
        wanted = job(name, resources, elastic=name == "a")
        self.job("JobSubmitted", wanted, name)
        self.written[self.seq] = wanted

    def _happens(self, what: str, name: str, count: Any) -> None:
        found = self.state_of(name)
        if what == "scale":
            self.job("JobScaled", {"podSets": {"main": count}}, name)
        elif what == "delete":
            self.job("JobDeleted", {}, name)
            if found.phase is Phase.STOPPING:
                self.job("JobStopped", {"attempt": found.attempt}, name)
        elif what in ("admit", "reserve") and not found.reserved and found.phase is Phase.PENDING:
            (self.admit if what == "admit" else self.reserve)(name)
        elif what == "stop" and found.reserved:
            self.evict(name)
            if found.phase is Phase.STOPPING:
                self.job("JobStopped", {"attempt": found.attempt}, name)
            if JobKey(f"default/{name}") in self.state.jobs and self.state_of(name).reserved:
                self.release(name)

    def waits_as_limited(self) -> None:
        rules = rules_of(self.state, "default")
        fresh = Rules(
            [
                item
                for _, spec in sorted(self.state.limit_ranges.get("default", {}).items())
                for item in spec.limits
            ]
        )
        assert not self.state.adjusting
        for found in self.state.jobs.values():
            if found.phase is not Phase.PENDING or found.reserved:
                continue
            wanted = self.written[found.manifest_seq]
            judged = fresh.judged(resources_of(decode_object(wanted)))
            assert judged == rules.judged(resources_of(decode_object(wanted)))
            assert tuple(pods.requests for pods in found.record.pod_sets) == judged.requests
            assert found.record.misconfigured == judged.message


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, min_size=8, max_size=30))
def test_what_waits_is_what_limit_ranges_make_of_its_manifest(steps: list[tuple[str, str, Any]]) -> None:
    """After any history; and rebuilding from the log gives the same state, byte for byte."""
    world = Limited()
    for name in NAMES:
        world.do("submit", name, {})
    for step in steps:
        had = {
            key: found.record.pod_sets
            for key, found in world.state.jobs.items()
            if found.reserved and step[0] in ("limit", "drop")
        }
        world.do(*step)
        world.waits_as_limited()
        for key, pod_sets in had.items():
            assert world.state.jobs[key].record.pod_sets == pod_sets, f"{key} has quota, and was changed"
    world.verify()
