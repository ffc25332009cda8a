"""What is public, read from the packages themselves.

The rule is one: a package's `__all__` names its public modules (and what it re-exports), a module's `__all__`
its public names. Of a module that has none, all is public but for what begins with an underscore.
`INTERFACE` is the part of it that users' programs and plug-ins build upon: its names and signatures are
recorded in `public_api.txt`, and a change of it is deliberate. `make api` records it anew.
"""

import ast
import importlib
import importlib.util
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

RECORD = Path(__file__).with_name("public_api.txt")

INTERFACE = (
    "sluice.sdk",
    "sluice.api",
    "sluice.events",
    "sluice.protocol",
    "sluice.log.contract",
    "sluice.log.decider",
    "sluice.log.errors",
    "sluice.log.fold",
    "sluice.log.memory",
    "sluice.replay.explain.why",
    "sluice.replay.lint.lint",
    "sluice.replay.simulate.what_if",
    "sluice.replay.source.errors",
    "sluice.replay.source.source",
    "sluice.replay.verify.whole_log",
)
"""What docs and plug-ins use: programs, checks, manifests, events, deciders, questions to a log."""

WIRE = ("sluice.api", "sluice.events", "sluice.protocol")
"""Fields of the structs in these are recorded in `proto/` (`make proto`), and not a second time here."""

Definition = (
    ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign | ast.TypeAlias
)


def modules(root: str) -> Iterator[ModuleType]:
    """*root* and all public modules below it, by name."""
    module = importlib.import_module(root)
    yield module
    for name in sorted(public_names(module)):
        if submodule(module, name):
            yield from modules(f"{root}.{name}")


def public_names(module: ModuleType) -> list[str]:
    """As its `__all__` has them; of a module that has none, all that it defines."""
    if not hasattr(module, "__path__"):
        return list(getattr(module, "__all__", own_names(module)))
    assert "__all__" in vars(module), f"{module.__name__} is a public package and has no __all__"
    found: list[str] = module.__all__
    return found


def own_names(module: ModuleType) -> list[str]:
    """What a module defines without an underscore, in its order."""
    return [name for name in _definitions(module.__name__) if not name.startswith("_")]


def submodule(module: ModuleType, name: str) -> bool:
    """Whether *name* in a package's `__all__` means a module of it."""
    return hasattr(module, "__path__") and importlib.util.find_spec(f"{module.__name__}.{name}") is not None


def objects(root: str) -> Iterator[tuple[str, str, Any]]:
    """(module, name, object) of all that is public from *root* on, without the modules."""
    for module in modules(root):
        for name in public_names(module):
            if not submodule(module, name):
                yield module.__name__, name, getattr(module, name)


def rendered() -> str:
    """The interface as recorded: a paragraph for each module, a line for each name."""
    lines: list[str] = []
    for root in INTERFACE:
        for module in modules(root):
            lines += ["", module.__name__]
            for name in sorted(public_names(module)):
                if not submodule(module, name):
                    lines += [f"    {line}" for line in _lines(module, name)]
    return "\n".join(lines[1:]) + "\n"


def _lines(module: ModuleType, name: str) -> list[str]:
    value = getattr(module, name)
    home = module.__name__
    if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__.startswith("sluice."):
        home = value.__module__
    if home != module.__name__ and _is_public(home, value.__name__):
        return [f"{name} = {home}.{value.__name__}"]
    definition = _definitions(home).get(getattr(value, "__name__", name)) or _definitions(home).get(name)
    if definition is None:
        return [name]
    if isinstance(definition, ast.ClassDef):
        return _class_lines(value, definition)
    return [_line(definition)]


def _is_public(home: str, name: str) -> bool:
    inside = any(home == root or home.startswith(f"{root}.") for root in INTERFACE) and "._" not in home
    return inside and name in public_names(importlib.import_module(home))


def _class_lines(cls: type, definition: ast.ClassDef) -> list[str]:
    bases = ", ".join(ast.unparse(base) for base in definition.bases)
    lines = [f"class {cls.__name__}({bases})" if bases else f"class {cls.__name__}"]
    if cls.__module__.startswith(WIRE) and hasattr(cls, "__struct_fields__"):
        return lines
    return lines + [f"    {line}" for line in _members(cls)]


def _members(cls: type) -> Iterator[str]:
    """Public members of a class and of those private classes of Sluice that it inherits from, each once."""
    seen: set[str] = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("sluice.") or (
            base is not cls and _is_public(base.__module__, base.__name__)
        ):
            continue
        definition = _definitions(base.__module__).get(base.__name__)
        for member in definition.body if isinstance(definition, ast.ClassDef) else ():
            name = _name(member)
            if name and name not in seen and (name == "__init__" or not name.startswith("_")):
                seen.add(name)
                assert isinstance(member, Definition)
                yield _line(member)


def _line(definition: Definition) -> str:
    match definition:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            marks = "".join(f"@{ast.unparse(mark)} " for mark in definition.decorator_list)
            word = "async def" if isinstance(definition, ast.AsyncFunctionDef) else "def"
            returned = f" -> {ast.unparse(definition.returns)}" if definition.returns else ""
            return f"{marks}{word} {definition.name}({ast.unparse(definition.args)}){returned}"
        case _:
            return " ".join(ast.unparse(definition).split())


def _name(node: ast.stmt) -> str | None:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return node.name
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case ast.TypeAlias(name=ast.Name(id=name)):
            return name
    return None


@cache
def _definitions(module: str) -> dict[str, Definition]:
    """Name -> what a module says of it at its top; a package, what its private modules do."""
    file = Path(str(importlib.import_module(module).__file__))
    private = sorted(file.parent.glob("_[a-z]*.py")) if file.name == "__init__.py" else []
    nodes = [node for each in (*private, file) for node in ast.parse(each.read_text()).body]
    return {name: node for node in nodes if (name := _name(node))}


def undocumented(root: str) -> Iterator[str]:
    """Public classes, functions, methods and properties without a docstring of their own or inherited."""
    for module, name, value in objects(root):
        if inspect.isfunction(value) and not value.__doc__:
            yield f"{module}.{name}"
        if inspect.isclass(value) and value.__module__.startswith("sluice."):
            if not vars(value).get("__doc__"):
                yield f"{module}.{name}"
            for member, method in vars(value).items():
                documented = isinstance(method, property | classmethod | staticmethod) or inspect.isfunction(
                    method
                )
                if documented and not member.startswith("_") and not inspect.getdoc(getattr(value, member)):
                    yield f"{module}.{name}.{member}"


if __name__ == "__main__":
    RECORD.write_text(rendered())
