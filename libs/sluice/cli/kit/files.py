"""Manifests from `-f`: files, directories, `-` and several documents in one."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import click
import msgspec

from sluice.api.errors import FieldError
from sluice.api.mapped import as_submitted, with_groups
from sluice.api.meta import Manifest, ObjectMeta
from sluice.api.scheme import kind_of
from sluice.api.unsupported import is_unsupported
from sluice.api.yaml import MAX_BYTES, YamlTextError, decode_yaml, plain_documents

from .errors import EXIT_USAGE, CliError, plural
from .options import Decorator

SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One manifest and where it was read."""

    place: str
    manifest: Manifest
    written: dict[str, Any] = field(default_factory=dict)
    """As its author spelled it: the api service's refusals name these fields."""

    @property
    def kind(self) -> str:
        return kind_of(self.manifest).kind

    @property
    def is_job(self) -> bool:
        return kind_of(self.manifest).is_job

    @property
    def metadata(self) -> ObjectMeta:
        metadata = getattr(self.manifest, "metadata", None)
        return metadata if isinstance(metadata, ObjectMeta) else ObjectMeta()

    @property
    def manifest_name(self) -> str:
        return self.metadata.name

    @property
    def manifest_namespace(self) -> str:
        return self.metadata.namespace

    def plain(self) -> dict[str, Any]:
        """Return the manifest as plain data that says what it is."""
        kind = kind_of(self.manifest)
        named = {"apiVersion": kind.api_version, "kind": kind.kind}
        return {**named, **msgspec.to_builtins(as_submitted(self.manifest)), **named}


def file_option(*, required: bool = True) -> Decorator:
    """`-f`, repeatable."""
    return click.option(
        "-f",
        "--filename",
        "filenames",
        multiple=True,
        required=required,
        metavar="FILE",
        help="File, directory, or - for standard input; may be given several times.",
    )


def read(
    filenames: Sequence[str],
    *,
    recursive: bool = False,
    check: Callable[[ManifestFile], Sequence[FieldError]] | None = None,
    skip: Callable[[str], None] | None = None,
) -> list[ManifestFile]:
    """Return the manifests of all files, in order.

    `skip`: is told of each object of a kind that there is not, which is left out then; else it is an error.

    `check`: what else may be wrong with a manifest; asked when another one cannot be decoded, so that people
    hear of everything at once.

    Raises:
        CliError: something is missing or wrong; every error is listed with file and line.
    """
    found: list[ManifestFile | list[str]] = []
    for place, text in _texts(filenames, recursive=recursive):
        for document in decode_yaml(text):
            if skip is not None and document.errors and all(map(is_unsupported, document.errors)):
                skip("; ".join(document.problems(place)))
            elif document.errors:
                found.append(document.problems(place))
            elif document.manifest is not None:
                found.append(ManifestFile(f"{place}:{document.line}", document.manifest, document.written))
    sources = [each for each in found if isinstance(each, ManifestFile)]
    if len(sources) < len(found):
        problems = [
            text
            for each in found
            for text in (_problems(each, check) if isinstance(each, ManifestFile) else each)
        ]
        raise CliError(
            f"{plural(len(problems), 'problem')} in the manifests; nothing was changed:\n"
            + "\n".join(f"  {problem}" for problem in problems)
        )
    if not sources:
        raise CliError(f"no objects found in {', '.join(filenames)}")
    return [
        source if manifest is source.manifest else ManifestFile(source.place, manifest)
        for place, manifest in with_groups([source.manifest for source in sources])
        for source in (sources[place],)
    ]


def _problems(
    source: ManifestFile, check: Callable[[ManifestFile], Sequence[FieldError]] | None
) -> list[str]:
    found = () if check is None else check(source)
    return [f'{source.place}: {source.kind} "{source.manifest_name}": {error}' for error in found]


def _texts(filenames: Sequence[str], *, recursive: bool) -> list[tuple[str, str | bytes]]:
    texts: list[tuple[str, str | bytes]] = []
    for filename in filenames:
        path = Path(filename)
        if filename != "-" and path.is_dir():
            pattern = "**/*" if recursive else "*"
            found = sorted(p for p in path.glob(pattern) if p.is_file() and p.suffix in SUFFIXES)
            if not found:
                raise CliError(f"{filename}: no {', '.join(SUFFIXES)} file in this directory")
            texts += [(str(p), read_file(p)) for p in found]
        else:
            texts.append(("<stdin>" if filename == "-" else filename, _text(filename)))
    return texts


def read_file(path: Path) -> bytes:
    """Return what a file holds, up to a byte more than a manifest may have.

    Raises:
        CliError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return read_limited(file)
    except FileNotFoundError:
        raise CliError(f"{path}: No such file or directory", exit_code=EXIT_USAGE) from None
    except OSError as error:
        raise CliError(f"{path}: {error.strerror}", exit_code=EXIT_USAGE) from None


def read_plain(filename: Path) -> list[Any]:
    """Return the documents of a file, or of standard input (`-`), as plain values.

    Raises:
        CliError: it cannot be read, or is no YAML.
    """
    try:
        return list(plain_documents(_text(str(filename))))
    except YamlTextError as error:
        raise CliError(f"{filename}:{error.line}: {error.detail}", exit_code=EXIT_USAGE) from None


def _text(filename: str) -> bytes:
    return read_limited(sys.stdin.buffer) if filename == "-" else read_file(Path(filename))


def read_limited(file: IO[bytes]) -> bytes:
    """Return what *file* holds, up to a byte more than `decode_yaml` takes: the rest would be for nothing."""
    return file.read(MAX_BYTES + 1)
