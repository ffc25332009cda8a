"""Labels and annotations that mean something, spelled as users of Kueue know them."""

PREFIX = "kueue.x-k8s.io/"

QUEUE_NAME = PREFIX + "queue-name"
PRIORITY_CLASS = PREFIX + "priority-class"
MAX_EXEC_TIME_SECONDS = PREFIX + "max-exec-time-seconds"
JOB_MIN_PARALLELISM = PREFIX + "job-min-parallelism"
JOB_COMPLETIONS_EQUAL_PARALLELISM = PREFIX + "job-completions-equal-parallelism"
PREBUILT_WORKLOAD = PREFIX + "prebuilt-workload-name"

CANNOT_PREEMPT = PREFIX + "cannot-preempt"
CANNOT_BORROW = PREFIX + "cannot-borrow"
ELASTIC_JOB = PREFIX + "elastic-job"
ADMISSION_GATED_BY = PREFIX + "admission-gated-by"
PRIORITY_BOOST = PREFIX + "priority-boost"
PREEMPTION_GATES = PREFIX + "preemption-gates"
"""Ours: comma-separated names of gates that a job's workload is born with (SC7)."""
ANSWER_TIMEOUT_SECONDS = PREFIX + "answer-timeout-seconds"
"""Ours: on an AdmissionCheck, how long it may go unanswered; "0": for ever."""
DRAIN = PREFIX + "drain"
"""Ours: on a MultiKueueCluster, that it gets no more jobs; those that it has `stay`, or `move`."""
STAY = "stay"
MOVE = "move"

PEOPLE = "people.sluice.dev"
"""Ours: the controllerName, or what stands before its `/`, of AdmissionChecks that people answer."""

WORKLOAD_SLICE_NAME = PREFIX + "workload-slice-name"
SLICE_REPLACEMENT_FOR = PREFIX + "workload-slice-replacement-for"
CONCURRENT_ADMISSION_PARENT = PREFIX + "concurrent-admission-parent"
ALLOWED_RESOURCE_FLAVORS = PREFIX + "workload-allowed-resource-flavors"
POD_SET_GROUP_NAME = PREFIX + "podset-group-name"
"""On a pod template: pod sets of one group get the same flavors."""
POD_GROUP_NAME = PREFIX + "pod-group-name"
POD_GROUP_TOTAL_COUNT = PREFIX + "pod-group-total-count"
POD_GROUP_FAST_ADMISSION = PREFIX + "pod-group-fast-admission"
JOB_UID = PREFIX + "job-uid"

RESOURCE_IN_USE = PREFIX + "resource-in-use"
"""The finalizer of objects that others refer to."""

GATE_CONCURRENT_ADMISSION = PREFIX + "concurrent-admission"
GATE_ELASTIC_JOB = PREFIX + "elastic-job"


def answered_by_people(controller_name: str) -> bool:
    """Do people answer the checks of this controllerName, so that no program need be there (AC9)?

    `people.sluice.dev` or `people.sluice.dev/<group>`.
    """
    return controller_name == PEOPLE or controller_name.startswith(f"{PEOPLE}/")
