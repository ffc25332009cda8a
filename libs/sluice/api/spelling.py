"""Field paths as the author of a manifest wrote them, though another spelling was judged (G1, CA1).

Conversion turns older and alternative spellings into the canonical one, which is decoded and validated; the
errors of that are translated back here, field, value and words.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from .convert import MODES, OLDER, is_proposal
from .errors import FieldError, plain
from .kueue_config import is_kueue_config, renames

_POLICY: Final = r"spec\.concurrentAdmissionPolicy"
_LIMITS: Final = "spec.concurrentAdmission.migrationConstraints"
_PROPOSAL: Final = (
    (rf"{_POLICY}\.migration\.constraints\.lastAcceptableFlavorName", f"{_LIMITS}.minFlavor"),
    (rf"{_POLICY}\.migration\.constraints\.lastAcceptableVariantName", f"{_LIMITS}.minVariant"),
    (rf"{_POLICY}\.migration\.constraints", _LIMITS),
    (rf"{_POLICY}\.migration", _LIMITS),
    (_POLICY, "spec.concurrentAdmission"),
)
_PROPOSAL_WORDS: Final = (
    ("migration.mode", "migrationConstraints.mode"),
    ("ConcurrentAdmissionPolicy", "concurrentAdmission"),
    *((f'"{canonical}"', f'"{written}"') for written, canonical in MODES.items()),
)
_FLAT_CHECKS: Final = (
    (r"spec\.admissionChecksStrategy\.admissionChecks\[(\d+)\](\.name)?", r"spec.admissionChecks[\1]"),
    (r"spec\.admissionChecksStrategy(\.admissionChecks)?", "spec.admissionChecks"),
)
_PRIORITY_CLASS: Final = (
    (r"spec\.priorityClassRef\.(kind|group)", "spec.priorityClassSource"),
    (r"spec\.priorityClassRef(\.name)?", "spec.priorityClassName"),
)
_STEP: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)")

Renames = Iterable[tuple[str, str]]


def as_written(errors: Iterable[FieldError], manifest: Mapping[str, Any]) -> list[FieldError]:
    """Return errors about the canonical form of *manifest* as errors about what is written in it."""
    renames = tuple(_renames(manifest))
    words = _words(manifest)
    return [_translated(error, renames, words, manifest) for error in errors] if renames else list(errors)


def _renames(manifest: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield (pattern of canonical fields, what is written instead), the longer ones first."""
    if is_kueue_config(manifest):
        yield from renames()
        return
    spec, kind = manifest.get("spec"), manifest.get("kind")
    if not isinstance(spec, Mapping):
        return
    if kind == "ClusterQueue" and is_proposal(spec):
        yield from _PROPOSAL
    if manifest.get("apiVersion") not in OLDER:
        return
    match kind:
        case "ClusterQueue":
            if "cohort" in spec and "cohortName" not in spec:
                yield r"spec\.cohortName", "spec.cohort"
            if "admissionChecks" in spec and "admissionChecksStrategy" not in spec:
                yield from _FLAT_CHECKS
        case "Cohort":
            word = next((w for w in ("parentName", "parent", "cohortName") if w in spec), "parentName")
            yield r"spec\.parentName", f"spec.{word}"
        case "Workload" if "priorityClassName" in spec:
            yield from _PRIORITY_CLASS


def _words(manifest: Mapping[str, Any]) -> Renames:
    spec = manifest.get("spec")
    return _PROPOSAL_WORDS if isinstance(spec, Mapping) and is_proposal(spec) else ()


def _translated(
    error: FieldError, renames: Renames, words: Renames, manifest: Mapping[str, Any]
) -> FieldError:
    field = error.field
    for pattern, instead in renames:
        field, found = re.subn(rf"^{pattern}(?=$|[.\[])", instead, field, count=1)
        if found:
            break
    detail = error.detail
    for canonical, written in words:
        detail = detail.replace(canonical, written)
    value = error.bad_value
    if field != error.field and value != "":
        there = _value_at(manifest, field)
        value = value if there is None else plain(there)
    return msgspec.structs.replace(error, field=field, detail=detail, bad_value=value)


def _value_at(manifest: Any, field: str) -> Any:
    here = manifest
    for index, word in _STEP.findall(field):
        if index and isinstance(here, list) and int(index) < len(here):
            here = here[int(index)]
        elif word and isinstance(here, Mapping):
            here = here.get(word)
        else:
            return None
    return here


__all__ = ["as_written"]
