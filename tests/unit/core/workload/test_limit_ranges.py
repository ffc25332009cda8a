"""What limit ranges and runtime classes make of pods: Kueue's rules, on plain values."""

from typing import Any

import msgspec
import pytest

from sluice.api.core_v1 import LimitRangeItem, PodSpec
from sluice.api.decode import decode_object
from sluice.core.slices.job_request import is_plain, job_request, resources_of
from sluice.core.workload.limit_ranges import Rules, Summary, decode, encode, summarize
from sluice.core.workload.pod_resources import PodResources, pod_resources, requests_of
from tests.support.slices_world import manifest

GI = 2**30


def items(*plain: dict[str, Any]) -> list[LimitRangeItem]:
    return msgspec.convert(list(plain), list[LimitRangeItem])


def pod(*containers: dict[str, Any], **more: Any) -> PodResources:
    spec = {"containers": [{"name": "c", "resources": each} for each in containers], **more}
    return pod_resources(msgspec.convert(spec, PodSpec))


def message(rules: Rules, *pods: PodResources) -> str:
    return rules.judged(pods).message


def requests(rules: Rules, one: PodResources) -> dict[str, int]:
    return rules.judged([one]).requests[0]


def test_ranges_add_up_to_the_strictest_and_the_first_defaults() -> None:
    """The lowest max and ratio, the highest min; of defaults the first, resource by resource."""
    found = summarize(
        items(
            {
                "type": "Pod",
                "max": {"cpu": 2},
                "min": {"cpu": "500m", "memory": "1Gi"},
                "default": {"cpu": 2},
                "defaultRequest": {"cpu": "500m"},
                "maxLimitRequestRatio": {"cpu": 2},
            },
            {
                "type": "Pod",
                "max": {"cpu": 3, "memory": "2Gi"},
                "min": {"cpu": 1},
                "default": {"cpu": 1, "memory": "2Gi"},
                "maxLimitRequestRatio": {"cpu": "500m"},
            },
            {"type": "Container", "max": {"cpu": 1}},
        )
    )

    assert found == {
        "Pod": Summary(
            max={"cpu": 2000, "memory": 2 * GI},
            min={"cpu": 1000, "memory": GI},
            default={"cpu": 2000, "memory": 2 * GI},
            default_request={"cpu": 500},
            max_limit_request_ratio={"cpu": 500},
        ),
        "Container": Summary(max={"cpu": 1000}),
    }


def test_what_containers_do_not_say_is_filled_in() -> None:
    """A limit of its own comes before a default request, a default request before a default limit."""
    rules = Rules(
        items({"type": "Container", "default": {"cpu": 4, "memory": "2Gi"}, "defaultRequest": {"cpu": 1}})
    )

    assert requests(rules, pod({})) == {"cpu": 1000, "memory": 2 * GI}
    assert requests(rules, pod({"limits": {"cpu": 3}})) == {"cpu": 3000, "memory": 2 * GI}
    assert requests(rules, pod({"requests": {"cpu": 2, "memory": "1Gi"}})) == {"cpu": 2000, "memory": GI}
    assert requests(rules, pod({}, {})) == {"cpu": 2000, "memory": 4 * GI}
    # Defaults of the type Pod are nobody's.
    assert requests(Rules(items({"type": "Pod", "defaultRequest": {"cpu": 1}})), pod({})) == {}


def test_a_default_limit_can_be_below_a_request() -> None:
    """Then the pod could never be made, and the workload says so as Kueue does."""
    rules = Rules(items({"type": "Container", "default": {"cpu": 1}}))

    assert message(rules, pod({}), pod({}, {"requests": {"cpu": 2}})) == (
        "resources validation failed: spec.podSets[1].template.spec.containers[1]: "
        'Invalid value: ["cpu"]: requests must not exceed its limits'
    )


def test_a_runtime_class_adds_its_overhead() -> None:
    """Unless the pod says itself what it is; a class that does not exist adds nothing."""
    rules = Rules(overheads={"kata": {"cpu": 250}})
    asked = {"requests": {"cpu": 1}}

    assert requests(rules, pod(asked, runtimeClassName="kata")) == {"cpu": 1250}
    assert requests(rules, pod(asked, runtimeClassName="kata", overhead={"cpu": "1"})) == {"cpu": 2000}
    assert requests(rules, pod(asked, runtimeClassName="other")) == {"cpu": 1000}
    assert requests(rules, pod(asked)) == {"cpu": 1000}


TWO = pod(
    {"requests": {"cpu": 1, "memory": "2Gi", "example.com/main": 2}},
    {"requests": {"cpu": "1.5", "example.com/gpu": 2}},
    initContainers=[
        {"name": "a", "resources": {"requests": {"cpu": 4, "memory": "2Gi"}}},
        {"name": "b", "resources": {"requests": {"cpu": "1.5", "example.com/init": 2}}},
    ],
    overhead={"cpu": 1, "memory": "1Gi", "example.com/gpu": 1},
)
SPEC = "spec.podSets[0].template.spec"


def limit(kind: str, word: str, resource: str, amount: Any) -> dict[str, Any]:
    return {"type": kind, word: {resource: amount}}


@pytest.mark.parametrize(
    ("limits", "wrong"),
    [
        (
            [limit("Container", "max", "example.com/init", 1)],
            [(".initContainers[1]", "init", "above", "max")],
        ),
        (
            [limit("Container", "min", "example.com/init", 3)],
            [(".initContainers[1]", "init", "below", "min")],
        ),
        ([limit("Container", "max", "example.com/main", 1)], [(".containers[0]", "main", "above", "max")]),
        ([limit("Container", "min", "example.com/main", 3)], [(".containers[0]", "main", "below", "min")]),
        # With overhead, the first init container needs five.
        ([limit("Pod", "max", "cpu", 4)], [("", "cpu", "above", "max")]),
        ([limit("Pod", "min", "cpu", 6)], [("", "cpu", "below", "min")]),
        ([limit("Pod", "max", "cpu", 5), limit("Container", "min", "example.com/main", 1)], []),
        (
            [
                limit("Pod", "max", "cpu", 4),
                limit("Container", "min", "example.com/main", 3),
                limit("Container", "max", "example.com/init", 1),
            ],
            [
                (".initContainers[1]", "init", "above", "max"),
                (".containers[0]", "main", "below", "min"),
                ("", "cpu", "above", "max"),
            ],
        ),
        # What nobody asks for has no least; ratios are for whoever makes the pods.
        ([limit("Container", "min", "example.com/other", 3)], []),
        ([limit("Container", "maxLimitRequestRatio", "cpu", 1)], []),
    ],
)
def test_containers_and_pods_stay_within_min_and_max(
    limits: list[dict[str, Any]], wrong: list[tuple[str, str, str, str]]
) -> None:
    """Init containers first, then containers, then the pod as a whole, each in Kueue's words."""
    errors = [
        f'{SPEC}{place}: Invalid value: ["{"cpu" if name == "cpu" else f"example.com/{name}"}"]: '
        f"requests must not be {how} the limitRange {bound}"
        for place, name, how, bound in wrong
    ]
    text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    expected = f"resources didn't satisfy LimitRange constraints: {text}" if errors else ""

    assert message(Rules(items(*limits)), TWO) == expected


def test_limits_count_for_the_most_and_requests_for_the_least() -> None:
    one = pod({"requests": {"cpu": 1}, "limits": {"cpu": 3}})

    assert "above" in message(Rules(items(limit("Container", "max", "cpu", 2))), one)
    assert "below" in message(Rules(items(limit("Container", "min", "cpu", 2))), one)
    # The pod as a whole: what is charged for.
    assert not message(Rules(items(limit("Pod", "max", "cpu", 2))), one)


def test_an_explicit_zero_is_below_a_least_amount() -> None:
    """Who asks for nothing at all is not judged; who asks for none is."""
    for kind in ("Container", "Pod"):
        rules = Rules(items(limit(kind, "min", "cpu", 3)))

        assert "below" in message(rules, pod({"requests": {"cpu": 0}}))
        assert not message(rules, pod({}))


def test_resources_and_pod_sets_say_the_same() -> None:
    """What a pod set requests is what its pods' resources come to; and they survive being written."""
    container = {"name": "c", "resources": {"limits": {"cpu": 2}, "requests": {"memory": "1Gi"}}}
    sidecar = {**container, "restartPolicy": "Always"}
    spec = {"containers": [container, container], "initContainers": [sidecar, container]}
    job = decode_object(manifest(template={"spec": {**spec, "overhead": {"cpu": 1}}}))
    pods = resources_of(job)

    assert [requests_of(each) for each in pods] == [each.requests for each in job_request(job).pod_sets]
    assert decode(encode(pods)) == pods
    assert not is_plain(job)
    assert is_plain(decode_object(manifest()))
