"""Report of a manifest's changes to a job that exists, for its submitter."""

from collections.abc import Iterator, Sequence

from sluice.core.workload.charges import counts, size_text
from sluice.events.ids import uid
from sluice.events.slices import JobSuspended, WorkloadCreated, WorkloadUpdated


def what_changed(events: Sequence[object], seq: int) -> str:
    """Return what of a job is otherwise since the submission at *seq*, by the *events* that answer it.

    "" if it was no change of a live job, but a job of its own.
    """
    said: dict[str, None] = {}
    for event in events:
        match event:
            case WorkloadUpdated(cause=cause) if cause == seq:
                said.update(dict.fromkeys(_updated(event)))
            case WorkloadCreated(cause=cause, workload=record) if cause == seq:
                if record.replaces is not None:
                    said[f"growth to {size_text(counts(record.pod_sets))} asks for quota"] = None
                elif record.job is not None and record.job.uid != uid(seq):
                    said[f"a new workload, {record.name}, queues in the place of the one before"] = None
            case JobSuspended(cause=cause, reason=reason) if cause == seq:
                said[f"it is stopped first ({reason}), and queues anew"] = None
            case _:
                pass
    if not said and any(isinstance(event, WorkloadUpdated) and event.cause == seq for event in events):
        return "changed, but nothing that its admission depends on"
    return f"changed: {'; '.join(said)}" if said else ""


def _updated(event: WorkloadUpdated) -> Iterator[str]:
    if event.active:
        yield "active again"
    if event.queue_name is not None:
        yield f"queue {event.queue_name}"
    if event.priority_class is not None:
        named = f"priority class {event.priority_class}" if event.priority_class else "no priority class"
        yield named if event.priority is None else f"{named}, priority {event.priority}"
    elif event.priority is not None:
        yield f"priority {event.priority}"
    if event.maximum_execution_time_s is not None:
        yield f"at most {event.maximum_execution_time_s} s of execution"
    if event.pod_sets is not None:
        yield size_text(counts(event.pod_sets))
    # Labels say queue, class and execution time, too.
    if event.labels is not None and event.queue_name is event.priority_class is None:
        yield "labels"
    if event.annotations is not None:
        yield "annotations"
