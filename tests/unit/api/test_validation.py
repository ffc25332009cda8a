"""Validation says what is wrong where, as an API server with Kueue's webhooks would."""

from typing import Any

import pytest

from sluice.api.decode import decode_object
from sluice.api.defaults import default
from sluice.api.errors import InvalidError
from sluice.api.meta import Manifest
from sluice.api.validation import check_job_update, require_valid, validate, validate_update

KUEUE = "kueue.x-k8s.io/v1beta2"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


def manifest(kind: str, spec: Any, version: str = KUEUE, **metadata: Any) -> Manifest:
    value = {"apiVersion": version, "kind": kind, "metadata": {"name": "a", **metadata}, "spec": spec}
    return default(decode_object(value))


def job(spec: dict[str, Any] | None = None, **metadata: Any) -> Manifest:
    container = {"name": "c", "resources": {"requests": {"cpu": 1}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return manifest("Job", {"template": template, **(spec or {})}, "batch/v1", **metadata)


def texts(subject: Manifest, **gates: bool) -> list[str]:
    return [str(error) for error in validate(subject, gates)]


def updates(new: Manifest, old: Manifest) -> list[str]:
    return [str(error) for error in validate_update(new, old)]


def flavor(name: str, cpu: Any = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": [{"name": "cpu", "nominalQuota": cpu, **more}]}


def group(*flavors: dict[str, Any]) -> dict[str, Any]:
    return {"coveredResources": ["cpu"], "flavors": list(flavors)}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", "metadata.name: Required value: name or generateName is required"),
        ("A", 'metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of'),
        ("a b", 'metadata.name: Invalid value: "a b": a lowercase RFC 1123 subdomain must consist of'),
        ("x" * 254, f'metadata.name: Invalid value: "{"x" * 254}": must be no more than 253 bytes'),
    ],
)
def test_names_are_dns_subdomains(name: str, text: str) -> None:
    (error,) = texts(manifest("ClusterQueue", {}, name=name))

    assert error.startswith(text)


def test_generated_names_need_a_prefix_only() -> None:
    assert texts(job(name="", generateName="sample-job-")) == []


def test_limits_need_a_cohort() -> None:
    """Without a cohort nobody lends and nobody borrows."""
    quota = flavor("f", borrowingLimit=1, lendingLimit=1)
    place = "spec.resourceGroups[0].flavors[0].resources[0]"

    assert texts(manifest("ClusterQueue", {"resourceGroups": [group(quota)]})) == [
        f'{place}.borrowingLimit: Invalid value: "1": must be nil when cohort is empty',
        f'{place}.lendingLimit: Invalid value: "1": must be nil when cohort is empty',
    ]
    assert texts(manifest("ClusterQueue", {"resourceGroups": [group(quota)], "cohortName": "c"})) == []


def test_quotas_are_quantities_and_not_negative() -> None:
    spec = {"resourceGroups": [group(flavor("f", "x"), flavor("g", "-1"))]}

    first, second = texts(manifest("ClusterQueue", spec))
    assert first.startswith('spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value: "x"')
    assert second.endswith('nominalQuota: Invalid value: "-1": must be greater than or equal to 0')


def test_flavors_of_a_group_cover_the_same_resources() -> None:
    spec = {"resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": [flavor("f")]}]}

    assert texts(manifest("ClusterQueue", spec)) == [
        "spec.resourceGroups[0].flavors[0].resources: Invalid value: 1: "
        "flavors must have the same number of resources as the coveredResources"
    ]


def test_borrowing_preemption_needs_reclaiming() -> None:
    preemption = {"borrowWithinCohort": {"policy": "LowerPriority"}}
    (error,) = texts(manifest("ClusterQueue", {"preemption": preemption}))

    assert error.endswith("reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never")


def policy(variants: list[dict[str, Any]] | None = None, **constraints: str) -> dict[str, Any]:
    found: dict[str, Any] = {"migration": {"mode": "TryPreferredFlavors"}}
    if constraints:
        found["migration"]["constraints"] = constraints
    if variants is not None:
        found["explicitVariants"] = variants
    return found


def test_explicit_variants_allow_a_flavor_of_every_group() -> None:
    """CA2, ours: several groups are fine where each variant can place all pods."""
    groups = [group(flavor("gpu")), {"coveredResources": ["memory"], "flavors": [
        {"name": "ram", "resources": [{"name": "memory", "nominalQuota": 1}]}
    ]}]  # fmt: skip
    whole = {"name": "v", "allowedResourceFlavors": ["gpu", "ram"]}
    half = {"name": "w", "allowedResourceFlavors": ["gpu", "tape"]}
    place = "spec.concurrentAdmissionPolicy.explicitVariants[1].allowedResourceFlavors"
    spec = {"resourceGroups": groups, "concurrentAdmissionPolicy": policy([whole, half])}

    assert texts(manifest("ClusterQueue", spec)) == [
        f'{place}[1]: Unsupported value: "tape": supported values: "gpu", "ram"',
        f'{place}: Invalid value: ["gpu","tape"]: must allow a flavor of every resource group; '
        "none of spec.resourceGroups[1]",
    ]
    assert texts(manifest("ClusterQueue", {**spec, "concurrentAdmissionPolicy": policy([whole])})) == []


def test_last_acceptable_names_fit_the_kind_of_variants() -> None:
    """CA2: a flavor without, a variant with explicit variants."""
    spec = {"resourceGroups": [group(flavor("f"))]}
    wrong_variant = policy(lastAcceptableVariantName="v")
    wrong_flavor = policy([{"name": "v", "allowedResourceFlavors": ["f"]}], lastAcceptableFlavorName="f")

    for wrong, word in ((wrong_variant, "only be set with"), (wrong_flavor, "not be set with")):
        (error,) = texts(manifest("ClusterQueue", {**spec, "concurrentAdmissionPolicy": wrong}))
        assert error.endswith(f"may {word} explicitVariants")


def test_migration_is_immutable_and_variants_are_not() -> None:
    """CA3."""
    spec = {"resourceGroups": [group(flavor("f"))]}
    one = {"name": "v", "allowedResourceFlavors": ["f"]}
    without = manifest("ClusterQueue", spec)
    some = manifest("ClusterQueue", {**spec, "concurrentAdmissionPolicy": policy([one])})
    more = manifest(
        "ClusterQueue", {**spec, "concurrentAdmissionPolicy": policy([one, {**one, "name": "w"}])}
    )
    limited = manifest(
        "ClusterQueue",
        {**spec, "concurrentAdmissionPolicy": policy([one], lastAcceptableVariantName="v")},
    )

    assert updates(more, some) == []
    for new, old in ((some, without), (without, some), (limited, some)):
        (error,) = updates(new, old)
        assert error.startswith("spec.concurrentAdmissionPolicy: Invalid value: ")
        assert error.endswith(": field is immutable")


def test_references_that_never_change() -> None:
    """A local queue stays with its cluster queue, a check with its controller (AC8)."""
    lq = [manifest("LocalQueue", {"clusterQueue": name}) for name in ("x", "y")]
    ac = [manifest("AdmissionCheck", {"controllerName": name}) for name in ("x/c", "y/c")]

    assert updates(lq[1], lq[0]) == ['spec.clusterQueue: Invalid value: "y": field is immutable']
    assert updates(ac[1], ac[0]) == ['spec.controllerName: Invalid value: "y/c": field is immutable']
    assert updates(lq[0], lq[0]) == updates(ac[0], ac[0]) == []


@pytest.mark.parametrize("seconds", ["", "soon", "-1", "1.5", "9" * 5000])
def test_an_answer_timeout_is_a_number_of_seconds(seconds: str) -> None:
    """Else the check would wait for ever, and nobody would know why."""
    annotations = {"kueue.x-k8s.io/answer-timeout-seconds": seconds}
    (error,) = texts(manifest("AdmissionCheck", {"controllerName": "x/c"}, annotations=annotations))
    assert error.startswith("metadata.annotations[kueue.x-k8s.io/answer-timeout-seconds]: Invalid value")


def test_configuration_knows_its_gates() -> None:
    """A misspelt gate would silently do nothing."""
    spec = {
        "featureGates": {"ConcurentAdmission": True},
        "waitForPodsReady": {"timeoutSeconds": 0},
        "workloadSliceHistoryLimit": -1,
    }

    assert texts(manifest("Configuration", spec, "sluice.dev/v1alpha1", name="default")) == [
        'spec.featureGates[ConcurentAdmission]: Unknown field: did you mean "ConcurrentAdmission"?',
        "spec.workloadSliceHistoryLimit: Invalid value: -1: must be between 0 and 1000",
        "spec.waitForPodsReady.timeoutSeconds: Invalid value: 0: must be greater than or equal to 1",
    ]


def test_job_labels_and_annotations() -> None:
    """What admission reads from a job's metadata must be readable."""
    labels = {QUEUE_LABEL: "A", "kueue.x-k8s.io/max-exec-time-seconds": "soon"}
    notes = {"kueue.x-k8s.io/job-min-parallelism": "3", "kueue.x-k8s.io/cannot-preempt": "yes"}
    queue, seconds, flag, least = texts(job({"parallelism": 3}, labels=labels, annotations=notes))

    assert queue.startswith(f'metadata.labels[{QUEUE_LABEL}]: Invalid value: "A": a lowercase RFC 1123')
    assert seconds == (
        'metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]: Invalid value: "soon": '
        'strconv.Atoi: parsing "soon": invalid syntax'
    )
    assert flag.endswith('Unsupported value: "yes": supported values: "true", "false"')
    assert least == (
        "metadata.annotations[kueue.x-k8s.io/job-min-parallelism]: Invalid value: 3: "
        "should be between 0 and 2"
    )


def test_partial_admission_and_elastic_jobs_exclude_each_other() -> None:
    """WS1; with the feature off, the annotation means nothing."""
    notes = {"kueue.x-k8s.io/job-min-parallelism": "1", "kueue.x-k8s.io/elastic-job": "true"}
    subject = job({"parallelism": 3}, annotations=notes)

    (error,) = texts(subject)
    assert error.endswith("partial admission and elastic job cannot be used together")
    assert texts(subject, ElasticJobsViaWorkloadSlices=False) == []
    own = decode_object(
        {
            "apiVersion": "sluice.dev/v1alpha1",
            "kind": "Job",
            "metadata": {"name": "a", "annotations": {"kueue.x-k8s.io/elastic-job": "true"}},
            "spec": {"queueName": "q", "command": ["true"], "replicas": 3, "minReplicas": 1},
        }
    )
    (error,) = texts(own)
    assert error.startswith("spec.minReplicas: Invalid value: 1: partial admission and elastic job")


@pytest.mark.parametrize(
    ("requests", "text"),
    [
        ({"cpu": "-1"}, '[cpu]: Invalid value: "-1": must be greater than or equal to 0'),
        ({"memory": "-100m"}, '[memory]: Invalid value: "-100m": must be greater than or equal to 0'),
        ({"cpu": "1x"}, '[cpu]: Invalid value: "1x": quantities must match the regular expression'),
        ({"pods": 1}, '[pods]: Invalid value: "pods": the key is reserved for internal kueue use'),
    ],
)
def test_requests_are_amounts(requests: dict[str, Any], text: str) -> None:
    containers = [{"name": "c", "resources": {"requests": requests}}]
    (error,) = texts(job({"template": {"spec": {"containers": containers}}}))

    assert error.startswith(f"spec.template.spec.containers[0].resources.requests{text}")


def test_a_job_has_containers() -> None:
    assert texts(job({"template": {}})) == ["spec.template.spec.containers: Required value"]


def test_what_a_running_job_may_not_change() -> None:
    """Queue and constraints are fixed while it runs; opting in to slices is fixed always (WS1, AX1)."""
    old = job(labels={QUEUE_LABEL: "x"})
    moved = job(labels={QUEUE_LABEL: "y"})
    bound = job(labels={QUEUE_LABEL: "x"}, annotations={"kueue.x-k8s.io/cannot-borrow": "true"})
    elastic = job(labels={QUEUE_LABEL: "x"}, annotations={"kueue.x-k8s.io/elastic-job": "true"})

    assert check_job_update(moved, old, running=False) == []
    assert [str(error) for error in check_job_update(moved, old, running=True)] == [
        f'metadata.labels[{QUEUE_LABEL}]: Invalid value: "y": field is immutable'
    ]
    assert check_job_update(bound, old, running=False) == []
    assert len(check_job_update(bound, old, running=False, reserved=True)) == 1
    assert len(check_job_update(elastic, old, running=False)) == 1


def test_what_a_running_plain_job_may_not_change() -> None:
    """Its fields are as fixed as the labels of other kinds; the number of pods is not."""
    old, moved, grown, bound = (
        manifest("Job", spec, "sluice.dev/v1alpha1")
        for spec in (
            {"queueName": "x"},
            {"queueName": "y"},
            {"queueName": "x", "replicas": 3},
            {"queueName": "x", "admissionConstraints": {"borrowing": "Never"}},
        )
    )

    assert [str(error) for error in check_job_update(moved, old, running=True)] == [
        'spec.queueName: Invalid value: "y": field is immutable'
    ]
    assert check_job_update(grown, old, running=True) == []
    assert check_job_update(bound, old, running=False) == []
    assert len(check_job_update(bound, old, running=False, reserved=True)) == 1


def test_plain_job_has_one_form() -> None:
    """The short form and pod sets exclude each other, and so do the two words for one number."""
    spec = {"podSets": [{"name": "a"}, {"name": "a"}], "replicas": 1, "parallelism": 2}
    subject = decode_object(
        {"apiVersion": "sluice.dev/v1alpha1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec}
    )

    assert texts(subject) == [
        "spec.parallelism: Forbidden: another word for replicas: set one of them",
        "spec.replicas: Forbidden: may not be set together with podSets: set it there",
        "spec.parallelism: Forbidden: may not be set together with podSets: set it there",
        'spec.podSets[1].name: Duplicate value: "a"',
    ]


def test_refused_objects_are_named() -> None:
    """One exception carries all errors and reads as an API server's answer."""
    with pytest.raises(InvalidError, match=r'LocalQueue\.kueue\.x-k8s\.io "a" is invalid: spec\.clusterQ'):
        require_valid(manifest("LocalQueue", {}))


# Limit ranges


def limit_range(*items: dict[str, Any]) -> Manifest:
    return manifest("LimitRange", {"limits": list(items)}, "v1", namespace="team")


def test_a_limit_range_fills_in_what_follows_as_kubernetes_does() -> None:
    """Of containers: the max is the default limit, that the default request, and else the min."""
    (item,) = limit_range(
        {"type": "Container", "max": {"cpu": 4, "memory": "1Gi"}, "min": {"cpu": 1, "x.y/gpu": 1}}
    ).spec.limits  # type: ignore[attr-defined]

    assert item.default == {"cpu": 4, "memory": "1Gi"}
    assert item.default_request == {"cpu": 4, "memory": "1Gi", "x.y/gpu": 1}
    (pod,) = limit_range({"type": "Pod", "max": {"cpu": 4}}).spec.limits  # type: ignore[attr-defined]
    assert (pod.default, pod.default_request) == ({}, {})


@pytest.mark.parametrize(
    ("item", "errors"),
    [
        ({"type": "Container", "max": {"cpu": 2}, "min": {"cpu": "500m"}}, []),
        ({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}, []),
        ({"type": ""}, ["spec.limits[0].type: Required value"]),
        (
            {"type": "Node"},
            ['spec.limits[0].type: Invalid value: "Node": must be a standard limit type or fully qualified'],
        ),
        (
            {"type": "Pod", "max": {"cpu": 1}, "min": {"cpu": 2}},
            ['spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1'],
        ),
        (
            {"type": "Pod", "default": {"cpu": 1}},
            ["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
        ),
        (
            {"type": "Container", "default": {"cpu": 1}, "defaultRequest": {"cpu": 2}},
            [
                'spec.limits[0].defaultRequest[cpu]: Invalid value: "2": '
                "default request value 2 is greater than default limit value 1"
            ],
        ),
        (
            {"type": "Container", "default": {"cpu": 3}, "defaultRequest": {"cpu": 1}, "max": {"cpu": 2}},
            ['spec.limits[0].default[cpu]: Invalid value: "3": default value 3 is greater than max value 2'],
        ),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}},
            ['spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1'],
        ),
        (
            {"type": "Container", "default": {"x.y/gpu": 2}, "defaultRequest": {"x.y/gpu": 1}},
            [
                'spec.limits[0].default[x.y/gpu]: Invalid value: "2": '
                "default value 2 must equal to defaultRequest value 1 in x.y/gpu"
            ],
        ),
        (
            {"type": "PersistentVolumeClaim"},
            [
                "spec.limits[0].limits: Required value: either minimum or maximum storage value is "
                "required, but neither was provided"
            ],
        ),
    ],
)
def test_limit_ranges_are_checked_as_by_an_api_server(item: dict[str, Any], errors: list[str]) -> None:
    assert texts(limit_range(item)) == errors


def test_each_type_is_limited_once_and_by_quantities() -> None:
    item = {"type": "Pod", "max": {"cpu": "much"}}
    found = texts(limit_range(item, item))

    assert found[0].startswith('spec.limits[0].max[cpu]: Invalid value: "much": quantities must match')
    assert found[1] == 'spec.limits[1].type: Duplicate value: "Pod"'


def test_a_runtime_class_has_a_handler_and_its_overhead_is_in_quantities() -> None:
    value = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}}
    overhead = {"podFixed": {"cpu": -1}}

    assert (
        texts(decode_object({**value, "handler": "kata", "scheduling": {"nodeSelector": {"a": "b"}}})) == []
    )
    assert texts(decode_object({**value, "overhead": overhead})) == [
        "handler: Required value",
        'overhead.podFixed[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ]


def test_a_job_may_not_ask_for_more_than_its_limits() -> None:
    """As an API server says it; a Workload that somebody makes by hand is judged by the scheduler."""
    wide = {"requests": {"cpu": 2, "memory": "1Gi"}, "limits": {"cpu": 1, "memory": "1024Mi"}}
    pod = {"containers": [{"name": "c", "resources": wide}], "restartPolicy": "Never"}

    assert texts(job({"template": {"spec": pod}})) == [
        "spec.template.spec.containers[0].resources.requests: "
        'Invalid value: "2": must be less than or equal to cpu limit of 1'
    ]
