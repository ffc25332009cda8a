"""Settings of the dispatcher's own, from `DISPATCHER_*`."""

import msgspec


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*links*: the folder with a file `<location>.json` for each link: `server`, and `cell`."""

    links: str = "links"
