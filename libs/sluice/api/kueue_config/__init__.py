"""Kueue's own Configuration (`config.kueue.x-k8s.io`), read for what has a meaning here.

`table` has every field of it and what becomes of each; `reading` makes a Configuration of Sluice's of one.
"""

from .reading import is_kueue_config, renames, to_configuration, warnings
from .table import FIELDS, VERSIONS, Field, How, Shape

__all__ = [
    "FIELDS",
    "VERSIONS",
    "Field",
    "How",
    "Shape",
    "is_kueue_config",
    "renames",
    "to_configuration",
    "warnings",
]
