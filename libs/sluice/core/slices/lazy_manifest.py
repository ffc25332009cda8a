"""Manifest of a live job: the parts that must be known, read as late as possible.

Edits and sizes are judged by it; of most jobs none ever come. So who folds what others have decided only
notes which message it is (`State.unread`), and the job's fields tell of it as soon as that matters: when the
next such message is to be answered (`read_manifest`), at the job's end, in a snapshot.
"""

from collections.abc import Sequence

from sluice.core.workload.limit_ranges import encode as encode_resources
from sluice.events.base import PodSet
from sluice.events.codec import type_of
from sluice.events.job import JobScaled

from .intake import Inbound
from .job_request import most_pods, resources_of
from .state import Job, State
from .submission import Submission, encoded_resources, template_digest

_TTL = b"ttlSecondsAfterFinished"


def note_manifest(state: State, job: Job, inbound: Inbound) -> None:
    """Note that the job goes by what the message says from here on: a manifest, or sizes."""
    pod_sets = job.record.pod_sets
    if inbound.is_read or job.key in state.unread or type_of(inbound.payload) != "JobSubmitted":
        read_manifest(state, job)
        _note(state, job, inbound, pod_sets)
    else:
        job.manifest_seq = inbound.seq
        state.unread[job.key] = (inbound, pod_sets)


def read_manifest(state: State, job: Job) -> None:
    """Bring the job's fields up to date with the manifest in force."""
    found = state.unread.pop(job.key, None)
    if found is not None:
        _note(state, job, *found)


def read_all_manifests(state: State) -> None:
    """Do so for all jobs."""
    for key in list(state.unread):
        read_manifest(state, state.jobs[key])


def note_before_end(state: State, job: Job) -> None:
    """Fill in what is kept of a finished job: its message's id, and how long it is to be kept."""
    found = state.unread.get(job.key)
    if found is None:
        return
    inbound = found[0]
    if _TTL in inbound.payload or b"\\" in inbound.payload:
        read_manifest(state, job)
    else:
        job.message_id, job.ttl_s = inbound.message_id, None


def _note(state: State, job: Job, inbound: Inbound, pod_sets: Sequence[PodSet]) -> None:
    data = inbound.data
    if isinstance(data, Submission):
        job.manifest_seq = inbound.seq
        job.message_id = inbound.message_id
        job.digest = data.digest
        job.template = template_digest(data)
        job.resources = _resources(state, data, pod_sets)
        job.most = most_pods(data.manifest)
        job.generation = max(job.generation, data.generation)
        job.ttl_s = data.ttl_s
    elif isinstance(data, JobScaled):
        # The manifest's counts are no longer those in force, so it may be submitted again to restore them.
        job.digest = b""
        if data.generation is not None:
            job.generation = max(job.generation, data.generation)


def _resources(state: State, submission: Submission, pod_sets: Sequence[PodSet]) -> bytes:
    """Return what the manifest says of resources, b"" when the *pod_sets* that were made of it tell it."""
    found = encoded_resources(submission)
    if found or not state.limits_used:
        return found
    own = resources_of(submission.manifest)
    if all(pod.containers[0].requests == pods.requests for pod, pods in zip(own, pod_sets, strict=False)):
        return b""
    return encode_resources(own)
