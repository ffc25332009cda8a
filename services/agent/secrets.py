"""Secrets that a manifest only names: files of the agent's machine, so that they never come into the log."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import PlanError

MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SecretRef:
    """A `secretKeyRef`: the file `<AGENT_SECRETS_DIR>/<namespace>/<name>/<key>`."""

    name: str
    key: str
    optional: bool = False


def secret_ref(given: Mapping[str, Any]) -> SecretRef:
    """Return what a manifest refers to.

    Raises:
        PlanError: it lacks name or key, or they are not names.
    """
    name, key = given.get("name"), given.get("key")
    for part in (name, key):
        if not isinstance(part, str) or not part or part.startswith(".") or "/" in part or "\0" in part:
            raise PlanError(f"secretKeyRef: {part!r} is no name")
    return SecretRef(str(name), str(key), given.get("optional") is True)


def no_secrets(ref: SecretRef) -> str | None:
    """Find none."""
    return read_secret(None, "", ref)


def read_secret(directory: Path | None, namespace: str, ref: SecretRef) -> str | None:
    """Return a secret of a namespace; None if there is none, and there need not be one.

    Raises:
        PlanError: there is none, or it is no text.
    """
    where = f"secret {ref.name!r}, key {ref.key!r} of namespace {namespace!r}"
    if directory is None:
        if ref.optional:
            return None
        raise PlanError(f"{where}: this agent has no secrets (AGENT_SECRETS_DIR)")
    if namespace.startswith(".") or "/" in namespace:
        raise PlanError(f"{where}: there is no such namespace")
    try:
        with (directory / namespace / ref.name / ref.key).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES or b"\0" in data:
            raise PlanError(f"{where}: is too large, or no text")
        return data.decode().rstrip("\n")
    except FileNotFoundError:
        if ref.optional:
            return None
        raise PlanError(f"{where}: there is none on this agent") from None
    except (OSError, UnicodeDecodeError) as error:
        # Not the text of the error of decoding, which quotes what it could not decode.
        why = error.strerror if isinstance(error, OSError) else "is no text"
        raise PlanError(f"{where}: {why}") from None
