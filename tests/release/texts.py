"""What is written by commands and committed: the wire contract, the pages made of code, the changelog."""

import importlib.util
from pathlib import Path
from types import ModuleType

import yaml

from sluice import __version__
from sluice.contract.schema import files
from tests.unit.docs import cli_page, dashboards, metrics_page, rights_page

from .lines import Failed
from .packages import ROOT


def contract(root: Path) -> str:
    """JSON Schemas, AsyncAPI and OpenAPI say what the code speaks."""
    wanted = files()
    stale = [name for name, text in wanted.items() if not _says(root / name, text)]
    stale += [
        name
        for path in (root / "proto").rglob("*.json")
        if (name := path.relative_to(root).as_posix()) not in wanted
    ]
    if stale:
        raise Failed(f"`make proto` would change {len(stale)}: {', '.join(sorted(stale)[:3])}")
    schemas = sum(name.startswith("proto/schema/") for name in wanted)
    apis = [name for name in wanted if name.endswith(("asyncapi.yaml", "openapi.json"))]
    versions = {str(yaml.safe_load(wanted[name])["info"]["version"]) for name in apis}
    said = ", ".join(sorted(versions))
    return f"{schemas} JSON Schemas, {len(apis)} descriptions of APIs ({said}) are current"


def pages(root: Path) -> str:
    """Pages and dashboards that are made of code are those that it makes."""
    made = {page.PAGE: page.page() for page in (cli_page, metrics_page, rights_page)}
    made |= {dashboards.FOLDER / f"{name}.json": dashboards.text(name) for name in dashboards.BOARDS}
    stale = [path.name for path, text in made.items() if not _says(root / path.relative_to(ROOT), text)]
    if stale:
        raise Failed(f"`make docs` would change {', '.join(stale)}")
    return f"{len(made)} pages and dashboards are current"


def changelog(root: Path) -> str:
    """All fragments find a place in the changelog of this version, which has not been released before."""
    module = _changelog(root)
    folder = root / "changes"
    fragments = sorted(path for path in folder.iterdir() if path.name != "README.md")
    before = (root / "CHANGELOG.md").read_text()
    if f"\n## {__version__}\n" in before:
        raise Failed(
            f"CHANGELOG.md has {__version__} already: raise `__version__` in libs/sluice/__init__.py"
        )
    try:
        kinds = [(module.kind_of(path), path.read_text()) for path in fragments]
    except ValueError as error:
        raise Failed(str(error)) from error
    after = module.released(before, __version__, kinds)
    section = after.partition(f"\n## {__version__}\n")[2].partition("\n## ")[0]
    lost = [
        path.name for path, (_, text) in zip(fragments, kinds, strict=True) if text.strip() not in section
    ]
    if lost:
        raise Failed(f"not in the changelog that would be made: {', '.join(lost)}")
    return f"{len(fragments)} fragments, {sum(line.startswith('- ') for line in section.splitlines())} items"


def _changelog(root: Path) -> ModuleType:
    """Return the program behind `make changelog`, which lies outside of all packages."""
    spec = importlib.util.spec_from_file_location("changelog", root / ".ci" / "changelog.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _says(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text() == text
