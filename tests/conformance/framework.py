"""Runs recorded cases of the reference implementation against Sluice.

The cases live outside the project, in `SLUICE_CONFORMANCE_DIR`: one JSON Lines file per suite, a header
and then one case a line. Each module of `tests.conformance.suites` adapts one suite:

    SUITE = "scheduler.TestSchedule"
    LEFT_OUT = {"case name": "white-box: why"}      # or "out of scope: ...", "deviates: <rule id> ..."
    def run(case, header): ...                      # raises AssertionError naming the difference

An adapter may meet cases that are not in the visible files, so it implements the suite and not a list.
"""

import importlib
import json
import os
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
REASONS = ("white-box: ", "out of scope: ", "deviates: ")
ISSUE_OF = {
    "concurrentadmission": 3,
    "scheduler.TestScheduleConcurrentAdmission": 3,
    "workload": 4,
    "workloadslicing": 5,
}
"""Which issue brings the adapter of a suite or of a whole package; all others come with issue 2."""


@dataclass(frozen=True, slots=True)
class Case:
    suite: str
    name: str
    data: Json
    header: Json

    def gates(self) -> dict[str, bool]:
        return gates(self.data, self.header)


@dataclass(frozen=True, slots=True)
class Suite:
    name: str
    header: Json
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Adapter:
    suite: str
    run: Callable[[Json, Json], None]
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Passed:
    pass


@dataclass(frozen=True, slots=True)
class Failed:
    message: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    reason: str


Outcome = Passed | Failed | LeftOut


def directory() -> Path:
    """Return the folder of the cases; it need not exist."""
    return Path(os.environ.get("SLUICE_CONFORMANCE_DIR") or ROOT.parent / "shared" / "conformance")


def suites(folder: Path | None = None) -> list[Suite]:
    """Read every suite, in order of name.

    Raises:
        ValueError: a file is no suite.
    """
    folder = directory() if folder is None else folder
    return [_read(path) for path in sorted(folder.glob("*.jsonl"))]


def _read(path: Path) -> Suite:
    with path.open(encoding="utf-8") as lines:
        header = json.loads(next(lines))
        if "suite" not in header:
            raise ValueError(f"{path.name}: the first line has no suite")
        name = header["suite"]
        cases = tuple(
            Case(suite=name, name=data["name"], data=data, header=header)
            for data in map(json.loads, filter(str.strip, lines))
        )
    return Suite(name=name, header=header, cases=cases)


def adapters() -> dict[str, Adapter]:
    """Return the adapters by suite; one that cannot be imported fails the cases of the suite in its name."""
    from . import suites as package

    found: dict[str, Adapter] = {}
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.startswith("_"):
            continue
        try:
            loaded = importlib.import_module(f"{package.__name__}.{module.name}")
            adapter = Adapter(loaded.SUITE, loaded.run, getattr(loaded, "LEFT_OUT", {}))
            _check_reasons(adapter)
        except Exception as error:  # a broken adapter must not hide the results of the others
            adapter = Adapter(
                module.name, _failing(f"adapter {module.name}: {type(error).__name__}: {error}")
            )
        found[_key(adapter.suite)] = adapter
    return found


def _key(suite: str) -> str:
    return suite.replace(".", "_").lower()


def adapter_of(suite: str, known: Mapping[str, Adapter]) -> Adapter | None:
    return known.get(_key(suite))


def _check_reasons(adapter: Adapter) -> None:
    for name, reason in adapter.left_out.items():
        if not reason.startswith(REASONS):
            raise ValueError(
                f"{adapter.suite}: {name!r} is left out for {reason!r}: begin with one of {REASONS}"
            )


def _failing(message: str) -> Callable[[Json, Json], None]:
    def run(case: Json, header: Json) -> None:  # noqa: ARG001
        raise AssertionError(message)

    return run


def outcome(case: Case, adapter: Adapter | None) -> Outcome:
    """Run one case."""
    if adapter is None:
        issue = ISSUE_OF.get(case.suite) or ISSUE_OF.get(case.suite.partition(".")[0], 2)
        return LeftOut(f"no adapter (issue {issue})")
    if case.name in adapter.left_out:
        return LeftOut(adapter.left_out[case.name])
    try:
        adapter.run(case.data, case.header)
    except AssertionError as error:
        return Failed(str(error) or "assertion failed")
    except Exception as error:
        where = _innermost(error)
        return Failed(f"{type(error).__name__}: {error} ({where})")
    return Passed()


def _innermost(error: BaseException) -> str:
    trace = error.__traceback__
    place = "?"
    while trace is not None:
        place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def gates(case: Json, header: Json) -> dict[str, bool]:
    """Return the feature gates in force for *case*."""
    return {**header.get("defaultFeatureGates", {}), **(case.get("featureGates") or {})}


def compare(actual: object, expected: object, path: str = "") -> None:
    """Compare JSON-like values; tuples count as lists.

    Raises:
        AssertionError: names the first difference as `path: expected ..., got ...`.
    """
    for place, want, got in differences(actual, expected, path):
        raise AssertionError(f"{place or 'value'}: expected {want!r}, got {got!r}")


def differences(actual: object, expected: object, path: str = "") -> Iterator[tuple[str, object, object]]:
    """Yield (path, expected, actual) for every leaf that differs."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for key in sorted({*expected, *actual}, key=str):
            inner = f"{path}.{key}" if path else str(key)
            if key not in actual or key not in expected:
                yield inner, expected.get(key, "<absent>"), actual.get(key, "<absent>")
            else:
                yield from differences(actual[key], expected[key], inner)
    elif isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        for i in range(max(len(expected), len(actual))):
            want = expected[i] if i < len(expected) else "<absent>"
            got = actual[i] if i < len(actual) else "<absent>"
            yield from differences(got, want, f"{path}[{i}]")
    elif expected != actual:
        yield path, expected, actual
