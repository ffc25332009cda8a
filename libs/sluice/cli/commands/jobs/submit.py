"""`sluice submit`: jobs into the log."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click
import msgspec

from sluice.api import sluice_v1
from sluice.api.custom import CustomObject
from sluice.api.errors import FieldError
from sluice.api.meta import ObjectMeta
from sluice.api.scheme import kind_of
from sluice.cli.cell.await_reply import answers, aside, why_stopping
from sluice.cli.cell.client import Api, run
from sluice.cli.cell.custom_kinds import with_own_jobs
from sluice.cli.cell.name_completion import complete_priority_classes, complete_queues
from sluice.cli.cell.publish import publish_job_event
from sluice.cli.cell.selectors import namespace_option
from sluice.cli.kit.columns import dig
from sluice.cli.kit.errors import CliError, plural
from sluice.cli.kit.files import ManifestFile, file_option, read
from sluice.cli.kit.manifests import job_errors
from sluice.cli.kit.terminal import echo, style
from sluice.core.slices.job_request import JobRequest, job_request
from sluice.protocol.query import ListRequest
from sluice.replay.source.suggest import did_you_mean

from .logs import printed
from .misspelt import images_alone, means_nothing
from .pod_logs import JobLogs, agents_directory
from .wait import follow_jobs

BATCH = 200
"""Jobs that are published before anybody asks what has become of them."""

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"


@click.command(context_settings={"ignore_unknown_options": False})
@file_option(required=False)
@namespace_option()
@click.option(
    "-q", "--queue", metavar="NAME", shell_complete=complete_queues,
    help="Local queue; overrides the manifest's.",
)  # fmt: skip
@click.option("--name", metavar="NAME", help="Name of the job made from a command line.")
@click.option("--cpu", default="1", show_default=True, help="CPUs per process of that job.")
@click.option("--memory", default="", help="Memory per process, e.g. 512Mi.")
@click.option("--gpu", default="", metavar="COUNT", help="GPUs per process, as nvidia.com/gpu.")
@click.option(
    "--resource", "resources", multiple=True, metavar="NAME=AMOUNT",
    help="Another resource per process, e.g. amd.com/gpu=2; may be given several times.",
)  # fmt: skip
@click.option("--replicas", type=click.IntRange(1), default=1, help="Processes of that job.")
@click.option(
    "--priority-class", default="", metavar="NAME", shell_complete=complete_priority_classes,
    help="WorkloadPriorityClass; overrides the manifest's.",
)  # fmt: skip
@click.option("--count", type=click.IntRange(1, 10_000), default=1, help="Submit so many, numbered.")
@click.option("--wait", is_flag=True, help="Wait until the jobs have ended; exit 1 if any failed.")
@click.option("--follow", is_flag=True, help="As --wait, and print what the jobs print (by agents here).")
@click.option("--timeout", default="", metavar="TIME", help="Wait at most so long, e.g. 5m.")
@click.option("--dry-run", is_flag=True, help="Check only.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def submit(
    ctx: click.Context,
    filenames: tuple[str, ...],
    namespace: str,
    queue: str | None,
    name: str | None,
    cpu: str,
    memory: str,
    gpu: str,
    resources: tuple[str, ...],
    replicas: int,
    priority_class: str,
    count: int,
    wait: bool,
    follow: bool,
    timeout: str,
    dry_run: bool,
    command: tuple[str, ...],
) -> None:
    """Submit jobs: from manifests, or a command line after --.

    Manifests are batch/v1 Jobs, the plain Job of sluice.dev/v1alpha1, or of the kinds that Kueue admits
    (docs/from-kueue.md). They are checked here first, so mistakes show at once; then they go to the log.

    \b
    Examples:
      sluice submit -f job.yaml --wait
      sluice submit -q team-a --cpu 2 --follow -- python train.py --epochs 3
      sluice submit -q team-a --gpu 2 --memory 64Gi -- python train.py
      sluice submit -q team-a --count 20 -- sleep 5
      kubectl create job x --image=y --dry-run=client -o yaml | sluice submit -q team-a -f -
    """
    _refuse_unclear(filenames, command, queue)
    if command:
        per_process = _amounts({"cpu": cpu, "memory": memory, "nvidia.com/gpu": gpu}, resources)
        sources = [ManifestFile("command line", _from_command(command, name, per_process, replicas))]
    else:
        sources = _jobs_in(filenames, lambda found: with_own_jobs(ctx, found))
    sources = [_overridden(source, queue, priority_class) for source in sources]
    if count > 1:
        sources = [_numbered(source, number) for source in sources for number in range(1, count + 1)]

    async def work(api: Api) -> int:
        submitted: dict[str, int] = {}
        failed = await submit_sources(api, sources, namespace, dry_run=dry_run, submitted=submitted)
        if failed:
            raise CliError(f"{plural(failed, 'job')} not submitted")
        if not submitted or not (wait or follow):
            return 0
        async with printed(await _outputs(api, submitted) if follow else ()):
            return await follow_jobs(api, list(submitted), limit=timeout, min_seq=max(submitted.values()))

    if failed := run(ctx, work):
        raise CliError(f"{plural(failed, 'job')} failed")


def _refuse_unclear(filenames: Sequence[str], command: Sequence[str], queue: str | None) -> None:
    if bool(filenames) == bool(command):
        raise CliError(
            "say what to submit: -f FILE, or a command after --",
            hint="sluice submit -f job.yaml    or    sluice submit -q team-a -- sleep 5",
            exit_code=2,
        )
    if command and not queue:
        raise CliError("a command line needs a queue", hint="sluice submit -q QUEUE -- COMMAND", exit_code=2)


async def _outputs(api: Api, submitted: Mapping[str, int]) -> list[JobLogs]:
    """Return the output of the jobs just submitted, told apart when they are several."""
    directory = agents_directory()
    found = []
    for key, seq in submitted.items():
        namespace, _, name = key.partition("/")
        job = await api.get("Job", name, namespace, min_seq=seq)
        # By its uid, as earlier jobs of the name may have left output too.
        uid = str(dig(job or {}, "metadata", "uid"))
        found.append(JobLogs(directory, namespace, name, uid=uid, label=name if len(submitted) > 1 else ""))
    return found


def _jobs_in(
    filenames: Sequence[str], own: Callable[[list[ManifestFile]], list[ManifestFile]] = list
) -> list[ManifestFile]:
    """Return the jobs in files; *own* makes jobs of those of teams' kinds."""
    sources = own(read(filenames, check=_wrong_in))
    if wrong := [source for source in sources if not source.is_job]:
        raise CliError(f"{wrong[0].place}: {wrong[0].kind} is no job", hint=_no_job(wrong[0]))
    return sources


def _no_job(source: ManifestFile) -> str:
    if isinstance(source.manifest, CustomObject):
        return "A JobKind must describe a team's own kind of jobs first: `sluice get jobkinds`."
    return "Configuration goes in with `sluice apply`."


def _wrong_in(source: ManifestFile) -> Sequence[FieldError]:
    return job_errors(_named(source, "default").manifest) if source.is_job else ()


def _amounts(named: Mapping[str, str], others: Sequence[str]) -> dict[str, Any]:
    """Return what a process wants of each resource: options with names of their own, then `NAME=AMOUNT`."""
    found: dict[str, Any] = {name: amount for name, amount in named.items() if amount}
    for text in others:
        name, equals, amount = text.partition("=")
        if not (name and equals and amount):
            raise CliError(
                f"--resource {text}: not NAME=AMOUNT", hint="E.g. --resource amd.com/gpu=2", exit_code=2
            )
        found[name] = amount
    return found


def _from_command(
    command: Sequence[str], name: str | None, resources: dict[str, Any], replicas: int
) -> sluice_v1.Job:
    stem = "".join(c for c in command[0].rsplit("/", 1)[-1].lower() if c.isalnum() or c == "-").strip("-")
    metadata = ObjectMeta(name=name) if name else ObjectMeta(generate_name=f"{stem or 'job'}-")
    # A command typed by hand that fails is reported, not tried again.
    spec = sluice_v1.JobSpec(command=list(command), replicas=replicas, resources=resources, backoff_limit=0)
    return sluice_v1.Job(metadata=metadata, spec=spec)


def _overridden(source: ManifestFile, queue: str | None, priority_class: str) -> ManifestFile:
    """Return the manifest with the queue and priority class of the command line."""
    if not queue and not priority_class:
        return source
    manifest: Any = source.manifest
    if isinstance(manifest, sluice_v1.Job):
        spec = msgspec.structs.replace(
            manifest.spec,
            queue_name=queue or manifest.spec.queue_name,
            priority_class_name=priority_class or manifest.spec.priority_class_name,
        )
        return replace(source, manifest=msgspec.structs.replace(manifest, spec=spec))
    labels = dict(manifest.metadata.labels)
    if queue:
        labels["kueue.x-k8s.io/queue-name"] = queue
    if priority_class:
        labels["kueue.x-k8s.io/priority-class"] = priority_class
    metadata = msgspec.structs.replace(manifest.metadata, labels=labels)
    return replace(source, manifest=msgspec.structs.replace(manifest, metadata=metadata))


def _numbered(source: ManifestFile, number: int) -> ManifestFile:
    manifest: Any = source.manifest
    metadata = manifest.metadata
    if not metadata.name:
        return source  # generateName makes every one different
    metadata = msgspec.structs.replace(metadata, name=f"{metadata.name}-{number}")
    return replace(source, manifest=msgspec.structs.replace(manifest, metadata=metadata))


def _named(source: ManifestFile, namespace: str) -> ManifestFile:
    """Return the manifest with a namespace, and a name where it only has a beginning of one."""
    manifest: Any = source.manifest
    metadata = manifest.metadata
    name = metadata.name
    if not name and metadata.generate_name:
        name = metadata.generate_name + "".join(secrets.choice(_SUFFIX) for _ in range(5))
    metadata = msgspec.structs.replace(
        metadata, name=name, generate_name="", namespace=metadata.namespace or namespace
    )
    return replace(source, manifest=msgspec.structs.replace(manifest, metadata=metadata))


async def submit_sources(
    api: Api,
    sources: Sequence[ManifestFile],
    namespace: str,
    *,
    dry_run: bool = False,
    if_absent: bool = False,
    submitted: dict[str, int] | None = None,
) -> int:
    """Check and submit jobs; return how many were refused, here or by the cell.

    *submitted* collects `namespace/name` of what was submitted and taken, and the sequence of the event.

    Nothing is submitted when any manifest is wrong. *if_absent* leaves jobs that exist alone.
    """
    named = [_named(source, namespace) for source in sources]
    wrong = 0
    for source in named:
        errors = job_errors(source.manifest)
        if errors:
            wrong += 1
            _show_errors(source, errors)
    if wrong:
        return wrong
    requests = [job_request(source.manifest) for source in named]
    _warn_of_misspelt(named)
    await _warn_of_queues(api, requests)
    failed = 0
    published: list[tuple[str, JobRequest, int]] = []
    for source, request in zip(named, requests, strict=True):
        label = f"{kind_of(source.manifest).kind.lower()}/{request.name}"
        if if_absent and await api.get("Job", request.name, request.namespace):
            echo(f"{label} unchanged (to change a job, use `sluice submit`)")
            continue
        if dry_run:
            echo(f"{label} submitted (dry run)")
            continue
        seq = await publish_job_event(api, request.namespace, request.name, source.plain())
        published.append((label, request, seq))
        if len(published) == BATCH:
            failed += await _report(api, published, submitted)
            published = []
    return failed + await _report(api, published, submitted)


async def _report(
    api: Api, published: Sequence[tuple[str, JobRequest, int]], submitted: dict[str, int] | None
) -> int:
    """Say what the cell has made of what was published: label, request, sequence; return how many failed."""
    failed = 0
    said = await answers(api, [seq for _, _, seq in published])
    for label, request, seq in published:
        answer = said[seq]
        if answer.refused:
            failed += 1
            CliError(f"{label} was not submitted (event {seq}): {answer.refused}").show()
            continue
        remark = answer.remark or answer.changed
        if answer.late and (why := await why_stopping(api, request.name, request.namespace)) is not None:
            remark = f"the job of this name is stopping ({why}), and this counts when it has stopped"
        echo(f"{label} submitted{aside(remark)}")
        if submitted is not None:
            submitted[request.key] = seq
    return failed


def _show_errors(source: ManifestFile, errors: Sequence[FieldError]) -> None:
    echo(f'{source.place}: {source.kind} "{source.manifest_name}" is invalid:', err=True)
    for error in errors:
        echo(f"* {error}", err=True)


def _warn_of_misspelt(sources: Sequence[ManifestFile]) -> None:
    """Say what means nothing, and what agents cannot run."""
    said: dict[str, None] = {}
    for source in sources:
        for text in means_nothing(source.manifest, source.written):
            said[f"{source.place}: {text}"] = None
        for path in images_alone(source.manifest):
            said[
                f"{source.place}: {path} has an image and no command: agents leave it to other executors."
            ] = None
    for text in said:
        echo(f"{style('Warning:', fg='yellow')} {text}", err=True)


async def _warn_of_queues(api: Api, requests: Sequence[JobRequest]) -> None:
    """Say which queues do not exist (yet): the job would wait for them."""
    for namespace in dict.fromkeys(request.namespace for request in requests):
        wanted = dict.fromkeys(r.queue_name for r in requests if r.namespace == namespace)
        found = await api.list(ListRequest(kind="LocalQueue", namespace=namespace))
        known = [item["metadata"]["name"] for item in found.items]
        for queue in wanted:
            if queue not in known:
                what = (
                    f'there is no local queue "{queue}" in namespace "{namespace}"'
                    if queue
                    else "no queue named"
                )
                near = did_you_mean(queue, known) if queue else ""
                tail = "the job waits until there is one" if queue else "the job will be rejected"
                echo(f"{style('Warning:', fg='yellow')} {what}; {tail}.{near}", err=True)
