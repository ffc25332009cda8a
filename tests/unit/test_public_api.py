"""What is public is said by `__all__`, documented, and as recorded; rooms use nothing else of each other."""

import ast
import difflib
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit import public_api

SOURCES = Path(__file__).parents[2] / "libs"
ROOMED = ("sluice.core", "sluice.log", "sluice.replay")
"""Packages whose folders are rooms: what stays inside one of them is nobody else's business."""

PUBLIC = (
    "api", "events", "protocol", "core", "log", "replay", "readmodel", "retention", "rights", "console",
    "sdk", "local", "telemetry",
)  # fmt: skip
"""All packages that others import; of `cli` and `contract` nobody uses a name."""


def test_the_interface_is_as_recorded() -> None:
    """No name or signature of the interface changes by accident; `make api` records what is meant."""
    recorded, now = public_api.RECORD.read_text().splitlines(), public_api.rendered().splitlines()
    diff = "\n".join(difflib.unified_diff(recorded, now, "recorded", "now", n=0, lineterm=""))
    assert not diff, (
        f"the interface has changed; if that is meant: make api, and a line in CHANGELOG.md\n{diff}"
    )


@pytest.mark.parametrize("root", public_api.INTERFACE)
def test_all_of_the_interface_is_documented(root: str) -> None:
    assert not list(dict.fromkeys(public_api.undocumented(root)))


@pytest.mark.parametrize("package", PUBLIC)
def test_every_public_name_exists(package: str) -> None:
    """Whatever an `__all__` names is there, has a docstring if it is a module, and is not called private."""
    for module in public_api.modules(f"sluice.{package}"):
        assert module.__doc__, module.__name__
        names = public_api.public_names(module)
        assert len(set(names)) == len(names), module.__name__
        for name in names:
            assert not name.startswith("_"), f"{module.__name__}.{name}"
            assert public_api.submodule(module, name) or hasattr(module, name), f"{module.__name__}.{name}"


def test_private_modules_of_the_sdk_say_so() -> None:
    """Of what users import, a module that is not public begins with an underscore."""
    public = {module.__name__ for module in public_api.modules("sluice.sdk")}
    files = {_module(file) for file in (SOURCES / "sluice" / "sdk").rglob("*.py")}
    assert {name for name in files if not name.rpartition(".")[2].startswith("_")} == public


def test_rooms_use_only_what_is_public_of_each_other() -> None:
    """An import from another room, or another package, names a public module and a public name of it."""
    public = (module for package in PUBLIC for module in public_api.modules(f"sluice.{package}"))
    allowed = {module.__name__: module for module in public}
    # `services` is a link, which rglob does not follow.
    folders = (SOURCES, SOURCES / "sluice" / "services")
    files = {_module(file): file for folder in folders for file in folder.rglob("*.py")}
    wrong = []
    for importer, file in files.items():
        for target, name in _imports(importer, file, set(files)):
            if _room(target) == _room(importer) or target.split(".")[1] not in PUBLIC:
                continue
            if target not in allowed or name not in public_api.public_names(allowed[target]):
                wrong.append(f"{importer}: {target}.{name}")
    assert not wrong, "what is meant to be public belongs to __all__"


@pytest.mark.parametrize("package", ["core", "log", "replay"])
def test_nothing_is_public_that_only_its_room_uses(package: str) -> None:
    """Whoever changes a name that is not public need not look beyond the room."""
    folders = (SOURCES, SOURCES / "sluice" / "services")
    files = {_module(file): file for folder in folders for file in folder.rglob("*.py")}
    used = set()
    for importer, file in files.items():
        imported = [(t, n) for t, n in _imports(importer, file, set(files)) if _room(t) != _room(importer)]
        text = file.read_text() if any(f"{target}.{name}" in files for target, name in imported) else ""
        used |= {f"{target}.{name}" for target, name in imported}
        # Of a module that is imported as a whole, whatever is taken from some module by a dot.
        used |= {f"{t}.{n}.{word}" for t, n in imported for word in re.findall(r"\.(\w+)", text)}
    spare = {
        f"{module.__name__}.{name}"
        for module in public_api.modules(f"sluice.{package}")
        if not module.__name__.startswith(public_api.INTERFACE)
        for name in public_api.public_names(module)
        if not public_api.submodule(module, name)
    }
    assert sorted(spare - used) == [], sorted(spare - used)


@pytest.mark.parametrize("package", [*PUBLIC, "services"])
def test_a_list_of_public_names_says_what_is_not_known_without_it(package: str) -> None:
    """A module that is public as a whole, or not at all, has no `__all__`, unless it hands others on."""
    root = importlib.import_module(f"sluice.{package}")
    public = (
        {module.__name__ for module in public_api.modules(root.__name__)} if hasattr(root, "__all__") else ()
    )
    idle = [
        name
        for file in (SOURCES / "sluice" / package).rglob("[!_]*.py")
        if re.search("(?m)^__all__ =", file.read_text())
        for name in (_module(file),)
        for module in (importlib.import_module(name),)
        for own in (set(public_api.own_names(module)),)
        if own >= set(module.__all__) and (name not in public or own == set(module.__all__))
    ]
    assert not idle


def _module(file: Path) -> str:
    return ".".join(file.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")


def _room(module: str) -> str:
    """The room that a module belongs to: of a package without rooms, the package."""
    package = ".".join(module.split(".")[:2])
    return ".".join(module.split(".")[:3]) if package in ROOMED else package


def _imports(importer: str, file: Path, known: set[str]) -> Iterator[tuple[str, str]]:
    """(module, name) of all that a file imports from Sluice; a module counts as a name of its package."""
    package = importer if file.name == "__init__.py" else importer.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            target = ".".join([*parts, *([node.module] if node.module else [])])
            for alias in node.names:
                if target.startswith("sluice.") and target in known:
                    yield target, alias.name
