"""An archive in an S3-compatible object store, by obstore (the extra `s3`).

Where and who is said by the environment that other programs for S3 know, never by an address or an argument:

    AWS_ENDPOINT_URL, AWS_REGION         the store, if it is not Amazon's
    AWS_ACCESS_KEY_ID, ...               a key; roles of machines and pods are found without it
    AWS_SHARED_CREDENTIALS_FILE          a file with the key, read anew every five minutes
    AWS_CA_BUNDLE                        who signs the store's certificate
    AWS_ALLOW_HTTP=true                  a store without TLS
"""

import configparser
import contextlib
import os
import re
import shutil
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import ArchiveError
from .object_lease import Lease

if TYPE_CHECKING:
    from obstore.store import S3Store


LOCK = ".lock"
LOCAL_BYTES = 1 << 30
"""Of files that were fetched, kept on this machine for the next question, about."""
TRY_S = 60
"""How long a store that does not answer, or answers with an error of its own, is asked again."""
REQUEST_S = 600
"""One request, of a large file over a slow line."""
KEY_S = 300


class Bucket:
    """An archive below a prefix of a bucket: `s3://bucket/prefix`."""

    def __init__(self, where: str) -> None:
        self.where = where.rstrip("/")
        with _told(self.where):
            self._store = _opened(self.where)
        self._lease: Lease | None = None
        self._fetched: OrderedDict[str, int] = OrderedDict()
        self._directory = Path(tempfile.mkdtemp(prefix="sluice-archive-"))
        weakref.finalize(self, shutil.rmtree, self._directory, ignore_errors=True)
        self._turn = threading.RLock()

    def put(self, name: str, source: Path) -> None:
        """See `ArchiveStore`. What was stored in parts is there with the last of them, or not at all."""
        import obstore

        if self._lease is not None:
            self._lease.check()
        self._forget(name)
        with _told(f"{self.where}/{name}"):
            obstore.put(self._store, name, source)

    def local(self, name: str) -> Path:
        """See `ArchiveStore`. A copy, which stays until others need its room."""
        with self._turn:
            path = self._directory / name
            if name not in self._fetched:
                self._fetch(name, path)
                self._fetched[name] = path.stat().st_size
            self._fetched.move_to_end(name)
            while len(self._fetched) > 1 and sum(self._fetched.values()) > LOCAL_BYTES:
                self._forget(next(iter(self._fetched)))
            return path

    def _fetch(self, name: str, path: Path) -> None:
        import obstore

        partial = path.with_name(f".{name}")
        try:
            with _told(f"{self.where}/{name}"), partial.open("wb") as file:
                for piece in obstore.get(self._store, name).stream():
                    file.write(piece)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    def forget(self) -> None:
        """See `ArchiveStore`."""
        with self._turn:
            for name in list(self._fetched):
                self._forget(name)

    def _forget(self, name: str) -> None:
        with self._turn:
            if self._fetched.pop(name, None) is not None:
                (self._directory / name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        """See `ArchiveStore`."""
        import obstore

        with _told(self.where):
            found = obstore.list_with_delimiter(self._store)["objects"]
        names = (str(each["path"]).rpartition("/")[2] for each in found)
        return sorted(name for name in names if not name.startswith("."))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """See `ArchiveStore`. Whoever ends without a word is waited for, until his lease has run out."""
        with _told(self.where):
            lease = Lease(self._store, LOCK, self.where)
            lease.take()
        self._lease = lease
        try:
            yield
        finally:
            self._lease = None
            lease.release()


def _opened(where: str) -> "S3Store":
    try:
        from obstore.store import S3Store
    except ImportError:
        raise ArchiveError(
            f"{where}: for object stores install the extra: pip install 'sluice-admission[s3]'"
        ) from None
    bucket, _, prefix = where.removeprefix("s3://").partition("/")
    if not bucket or "@" in bucket or "?" in where:
        # Its text is not repeated: it may have a password.
        raise ArchiveError(
            "an archive in an object store is s3://BUCKET/PREFIX; its keys are in the environment, or in the "
            "file that AWS_SHARED_CREDENTIALS_FILE names"
        )
    options: Any = {"timeout": timedelta(seconds=REQUEST_S), "connect_timeout": timedelta(seconds=10)}
    options["allow_http"] = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true")
    if bundle := os.environ.get("AWS_CA_BUNDLE"):
        options["root_certificate"] = Path(bundle).read_bytes()
    return S3Store(
        bucket,
        prefix=prefix or None,
        config={"checksum_algorithm": os.environ.get("AWS_CHECKSUM_ALGORITHM", "SHA256")},
        client_options=options,
        retry_config={"max_retries": 10, "retry_timeout": timedelta(seconds=TRY_S)},
        credential_provider=_key_of_file if os.environ.get("AWS_SHARED_CREDENTIALS_FILE") else None,
    )


def _key_of_file() -> Any:
    """Return what the file has now, to be asked for again soon: keys are replaced while programs run."""
    path = os.environ["AWS_SHARED_CREDENTIALS_FILE"]
    profile = os.environ.get("AWS_PROFILE", "default")
    found = configparser.ConfigParser(interpolation=None)
    try:
        found.read_string(Path(path).read_text())
        section = found[profile]
        return {
            "access_key_id": section["aws_access_key_id"],
            "secret_access_key": section["aws_secret_access_key"],
            "token": section.get("aws_session_token"),
            "expires_at": datetime.now(UTC) + timedelta(seconds=KEY_S),
        }
    except (OSError, KeyError, ValueError, configparser.Error) as error:
        # What a parser says of a file has its lines in it.
        raise ArchiveError(f"{path}: has no key for the profile {profile} ({type(error).__name__})") from None


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """Turn the store's errors into the archive's, in a line."""
    try:
        yield
    except ArchiveError:
        raise
    except FileNotFoundError as error:
        raise ArchiveError(f"{what}: it is missing{_said(str(error), 'NoSuchBucket')}") from error
    except Exception as error:
        foreign = type(error).__module__.partition(".")[0] != "obstore"
        if foreign and not isinstance(error, (OSError, ValueError)):
            raise
        raise ArchiveError(f"{what}: {_words(str(error))}") from error


def _said(text: str, code: str) -> str:
    return ": there is no such bucket" if code in text else ""


def _words(text: str) -> str:
    """Return what a store has said, without its address, markup and the library's own notes."""
    text = text.partition("Debug source:")[0][:4000]
    code, message = (re.search(f"<{tag}>([^<]*)<", text) for tag in ("Code", "Message"))
    if code is not None:
        return f"{code[1]}: {message[1] if message else ''}".strip(": ")
    status = re.search(r"status code: (\d{3} [A-Za-z ]*)", text)
    short = status[1] if status is not None else " ".join(text.split())
    return f"the object store has not done it: {short[:300]}"
