"""The variant-controller's own configuration: none so far. What it decides by is in the log (G2)."""

import msgspec


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`VARIANT_CONTROLLER_*` variables; an unknown one is an error, not silence."""
