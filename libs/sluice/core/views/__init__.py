"""Views for users, folded from the events of all writers.

`View` is the fold; the functions beside it make manifests, conditions and tables of what it holds.
"""

from .present.history import notices
from .present.job import JobStatus, job_status
from .present.pending import no_variant, position, positions, reasons_of, why_pending
from .present.queue import cluster_queue_status, cohort_status, local_queue_status
from .present.workload import to_manifest
from .records import ClusterQueueView, JobView, LocalQueueView, WorkloadView
from .view import View

__all__ = [
    "ClusterQueueView",
    "JobStatus",
    "JobView",
    "LocalQueueView",
    "View",
    "WorkloadView",
    "blocks",
    "cluster_queue_status",
    "cohort_status",
    "equivalence",
    "holding",
    "job_status",
    "local_queue_status",
    "no_variant",
    "notices",
    "position",
    "positions",
    "present",
    "quota_totals",
    "reasons_of",
    "records",
    "rows",
    "snapshot",
    "to_manifest",
    "totals",
    "view",
    "why_pending",
]
