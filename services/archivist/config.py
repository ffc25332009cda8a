"""Configuration of the archivist: `ARCHIVIST_*`, beside the cell's."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from sluice.log.runtime.config import load_prefixed
from sluice.retention.policy import RetentionPolicy

Seconds = Annotated[float, msgspec.Meta(ge=0)]


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ARCHIVIST_<FIELD>` each. Without a limit of age or size the log is archived, and nothing is cut."""

    archive: str
    """The cell's archive: a directory, or `s3://BUCKET/PREFIX`."""
    max_age_s: Seconds = 0
    """What is older goes from the stream, once it is archived and behind a base; 0: nothing by its age."""
    max_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    """The stream is cut until it has about so many bytes; 0: however large it is."""
    keep_s: Seconds = 3600
    """What is younger stays, whatever the size."""
    every_s: Annotated[float, msgspec.Meta(gt=0)] = 3600
    """How long after a round the next one begins."""
    without_api: bool = False
    """Cut also where the api service has saved nothing: it then forgets the histories of what is cut."""

    @property
    def policy(self) -> RetentionPolicy:
        return RetentionPolicy(self.max_age_s, self.max_bytes, self.keep_s)


def load(env: Mapping[str, str]) -> Config:
    """Return the configuration.

    Raises:
        SettingError: an unknown `ARCHIVIST_*` variable, or one with a wrong value; names it.
    """
    return load_prefixed(env, "ARCHIVIST_", Config)
