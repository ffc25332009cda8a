"""Names in backticks, in docstrings and comments of the code, are names of something that is there."""

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from tests.unit.structure import ROOT, Code

_QUOTED = re.compile(r"`+([A-Za-z_]\w*(?:\.\w+)*)`+")
_TEXT = re.compile(r'""".*?"""|(?:^|  +)# [^\n]*', re.DOTALL | re.MULTILINE)
_DEFINITION = re.compile(r"^ *(?:async )?(?:def|class) (\w+)", re.MULTILINE)

ALLOWED = {
    "async",  # a word of the language, as is
    "metav1",  # what Kubernetes' own code calls the package
    "python3",  # a program
    "snapshots",  # ends of names of buckets,
    "leases",  # of which any may be made
    "_NATS_URL",  # ends of names of variables
    "_INSTANCE",
    "_REPLICAS",
}


@cache
def _texts() -> list[tuple[Path, int, str]]:
    """(file, line, text) of docstrings and comments."""
    return [
        (file, source.count("\n", 0, match.start()) + 1, match[0])
        for file in Code().files.values()
        for source in (file.read_text(),)
        for match in _TEXT.finditer(source)
    ]


@cache
def _words() -> dict[Path, set[str]]:
    """File -> all words of its code, without docstrings and comments."""
    return {file: set(re.findall(r"\w+", _TEXT.sub("", file.read_text()))) for file in Code().files.values()}


@cache
def _defined() -> dict[str, list[Path]]:
    """Name of a package, module, class or function -> where to look for what belongs to it."""
    found: dict[str, list[Path]] = defaultdict(list)
    for name, file in Code().files.items():
        for part in {*name.split("."), *_DEFINITION.findall(file.read_text())}:
            found[part].append(file)
    return found


@cache
def _public_words() -> set[str]:
    """Fields and values of manifests, events and messages: everybody talks of these."""
    public = re.compile(r"/sluice/(api|events|protocol)/")
    found = {word for file, own in _words().items() if public.search(str(file)) for word in own}
    for file in (ROOT / "proto").glob("schema/*.json"):
        found.update(re.findall(r"\w+", file.read_text()))
    return found | {re.sub(r"_(\w)", lambda match: match[1].upper(), word) for word in found}


def _is_known(name: str, file: Path) -> bool:
    if name.startswith("job."):
        return True  # a subject
    first, *rest = name.split(".")
    homes = _defined().get(first, [])
    if homes and all(any(part in _words()[home] or part in home.parts for home in homes) for part in rest):
        return True
    return all(part in _words()[file] or part in _public_words() for part in (first, *rest))


def test_names_in_docstrings_and_comments_exist() -> None:
    """Whoever follows one finds it: a module, a definition, a name of the same file, a public field."""
    unknown = [
        f"{file.relative_to(ROOT)}:{line + text.count(chr(10), 0, match.start())}: {match[1]}"
        for file, line, text in _texts()
        for match in _QUOTED.finditer(text)
        if match[1] not in ALLOWED and not _is_known(match[1], file)
    ]
    assert unknown == [], "\n".join(unknown)


def test_what_is_found() -> None:
    file = ROOT / "libs/sluice/core/checks/decider.py"
    assert _is_known("timeouts", file)
    assert _is_known("Overcommit.keep", file)
    assert not _is_known("checks_silence", file)
    assert not _is_known("Overcommit.no_such_thing", file)
