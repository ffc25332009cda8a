"""The console's files: vendored ones are what npm has, all are small, nothing is fetched from elsewhere."""

import base64
import gzip
import hashlib
import json
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
STATIC = ROOT / "libs/sluice/console/static"
OWN = sorted((STATIC / "app").rglob("*.js"))
LINES, FIRST_VIEW = 300, 150_000
"""Lines of a module at most; bytes of the first view, compressed."""
MAP = json.loads(
    (STATIC / "index.html").read_text().partition('<script type="importmap">')[2].partition("</script>")[0]
)["imports"]
IMPORT = re.compile(r'^(?:import|export) .*?from "([^"]+)";|^import "([^"]+)";', re.MULTILINE)


@pytest.mark.parametrize(
    "folder", [STATIC / "vendor", ROOT / "tests/browser/vendor"], ids=["console", "tests"]
)
def test_vendored_files_are_those_of_the_lock(folder):
    """Each has the hash taken from npm's tarball, each package its licence; nothing else lies there."""
    packages = json.loads((folder / "vendor.lock").read_text())
    files = {file["file"]: file["integrity"] for package in packages for file in package["files"]}
    for name, integrity in files.items():
        digest = hashlib.sha384((folder / name).read_bytes()).digest()
        assert f"sha384-{base64.b64encode(digest).decode()}" == integrity, name
    assert {file.name for file in folder.iterdir()} == {*files, "vendor.lock"}
    for package in packages:
        assert package["integrity"].startswith("sha512-")
        assert any("LICENSE" in file["file"] for file in package["files"])


@pytest.mark.parametrize("path", OWN, ids=[str(path.relative_to(STATIC)) for path in OWN])
def test_a_module_is_small_and_imports_what_is_there(path):
    text = path.read_text()
    assert len(text.splitlines()) <= LINES
    assert text.startswith("// "), "says what it is"
    for found in IMPORT.finditer(text):
        name = found[1] or found[2]
        if name.startswith("."):
            assert (path.parent / name).is_file(), name
        else:
            assert name in MAP, name


def _needed(name: Path, seen: set[Path]) -> set[Path]:
    """Return the modules that are loaded with one."""
    if name not in seen:
        seen.add(name)
        for found in re.finditer(r'from ?"([^"]+)"', name.read_text()):
            mapped = MAP.get(found[1])
            target = STATIC / mapped.removeprefix("/static/") if mapped else name.parent / found[1]
            if target.is_file():
                _needed(target.resolve(), seen)
    return seen


def test_the_first_view_is_light():
    """HTML, style, all modules that it loads, and the page that it opens with; compressed."""
    files = _needed((STATIC / "app/main.js").resolve(), set())
    _needed((STATIC / "app/pages/now.js").resolve(), files)
    files |= {STATIC / "index.html", STATIC / "console.css"}
    assert sum(len(gzip.compress(file.read_bytes())) for file in files) < FIRST_VIEW


def test_nothing_comes_from_elsewhere():
    """No address of another host in what the browser loads; no inline style or handler in the page."""
    for path in [*OWN, STATIC / "index.html", STATIC / "console.css"]:
        hosts = re.findall(r"https?://[^\s\"'`)]+", path.read_text())
        assert hosts == [], path
    page = (STATIC / "index.html").read_text()
    assert " style=" not in page
    assert not re.search(r"\son[a-z]+=", page)


def test_pages_are_installed_with_the_package():
    """The package data name what lies below the static folder."""
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"][
        "sluice"
    ]
    found = {file for pattern in patterns for file in (ROOT / "libs/sluice").glob(pattern)}
    assert {file for file in STATIC.rglob("*") if file.is_file()} <= found


def test_the_stream_has_all_kinds_that_pages_listen_to() -> None:
    """A kind that no frame tells of would leave a page as it was."""
    stream = (STATIC / "app/stream.js").read_text()
    told = set(stream.partition("kinds=")[2].partition('"')[0].split(","))
    listed = (
        found for file in OWN for found in re.findall(r"kinds[:=]\s*(?:\$\{)?\[([^\]]*)\]", file.read_text())
    )
    wanted = {kind for part in listed for kind in re.findall(r'"(\w+)"', part)}
    assert "LocalQueue" in wanted
    assert wanted <= told
