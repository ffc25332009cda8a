"""What users see, folded from the events of all writers.

`View` is the fold; the functions beside it make manifests, conditions and tables of what it holds.
"""

from .job_status import JobStatus, Phase, job_status
from .notices import Notice, notices
from .pending import position, positions, why_pending
from .queue_status import cluster_queue_status, cohort_status, local_queue_status
from .records import ClusterQueueView, JobView, LocalQueueView, Transition, WorkloadView
from .view import View
from .workload_status import conditions, to_manifest

__all__ = [
    "ClusterQueueView",
    "JobStatus",
    "JobView",
    "LocalQueueView",
    "Notice",
    "Phase",
    "Transition",
    "View",
    "WorkloadView",
    "cluster_queue_status",
    "cohort_status",
    "conditions",
    "job_status",
    "local_queue_status",
    "notices",
    "position",
    "positions",
    "to_manifest",
    "why_pending",
]
