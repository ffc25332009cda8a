"""The bill of materials (CycloneDX): which packages a Sluice that was installed consists of."""

import json
import re
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path

from cyclonedx.model import ExternalReference, ExternalReferenceType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from .lines import Failed
from .packages import constraints

OURS = "sluice-admission"
VERSION = SchemaVersion.V1_6


def bill(site: Path) -> str:
    """Return the bill of what is installed in the folder *site*, as JSON, the same for the same packages.

    Raises:
        Failed: it does not fit CycloneDX's schema, or lacks us.
    """
    found = {_name(one): one for one in distributions(path=[str(site)])}
    if OURS not in found:
        raise Failed(f"there is no {OURS} in {site}")
    parts = {name: _component(name, one) for name, one in sorted(found.items())}
    bom = Bom(components=[part for name, part in parts.items() if name != OURS])
    bom.metadata.component = parts[OURS]
    for name, one in found.items():
        needed = (re.match(r"[\w.-]+", text) for text in one.requires or ())
        names = {_normal(match[0]) for match in needed if match}
        bom.register_dependency(parts[name], [parts[other] for other in sorted(names & parts.keys())])
    text = make_outputter(bom, OutputFormat.JSON, VERSION).output_as_string(indent=2)
    document = json.loads(text)
    # Made again it is the same: what changes by itself would hide what has changed.
    document.pop("serialNumber", None)
    document["metadata"].pop("timestamp", None)
    text = json.dumps(document, indent=2) + "\n"
    wrong = JsonStrictValidator(VERSION).validate_str(text)
    if wrong:
        raise Failed(f"the bill does not fit its schema: {str(wrong).splitlines()[0]}")
    return text


def compared(text: str, root: Path) -> str:
    """Say how many parts a bill has; each is locked, in that version.

    Raises:
        Failed: a part is not in the lock file below *root*, or in another version.
    """
    locked = {}
    for line in constraints(root):
        name, _, version = line.partition(";")[0].strip().partition("==")
        locked[_normal(name)] = version.strip()
    parts = {_normal(one["name"]): one["version"] for one in json.loads(text)["components"]}
    other = [f"{name} {version}" for name, version in parts.items() if locked.get(name) != version]
    if other:
        raise Failed(f"not as in requirements.lock: {', '.join(other)}")
    return f"{len(parts)} packages, all as locked"


def _component(name: str, one: Distribution) -> Component:
    home = _home(one.metadata.get_all("Project-URL") or ())
    website = ExternalReferenceType.WEBSITE
    return Component(
        type=ComponentType.APPLICATION if name == OURS else ComponentType.LIBRARY,
        name=one.metadata["Name"],
        version=one.version,
        bom_ref=f"{name}=={one.version}",
        purl=PackageURL("pypi", name=name, version=one.version),
        description=one.metadata.get("Summary"),
        licenses=_licenses(one),
        external_references=[ExternalReference(type=website, url=XsUri(home))] if home else [],
    )


def _licenses(one: Distribution) -> list[LicenseExpression | DisjunctiveLicense]:
    expression, name = one.metadata.get("License-Expression"), one.metadata.get("License")
    if expression:
        return [LicenseExpression(expression)]
    # Of many lines it is the license itself, not its name.
    return [DisjunctiveLicense(name=name)] if name and "\n" not in name else []


def _home(urls: Iterable[str]) -> str:
    named = dict(url.split(", ", 1) for url in urls if ", " in url)
    return next((named[key] for key in ("Homepage", "homepage", "Source", "Repository") if key in named), "")


def _name(one: Distribution) -> str:
    return _normal(one.metadata["Name"])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
