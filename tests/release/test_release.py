"""The release check finds what it is there for."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sluice import __version__
from sluice.cli.main import cli
from tests.unit.docs.cli_page import commands

from . import deployment, man, shell, texts
from .bill import bill, compared
from .lines import Failed, Line, Outcome, Skipped, look_at, run, status, table
from .packages import ROOT, Packages, committed, content, same


def _raising(error: Exception) -> Line:
    def look() -> str:
        raise error

    return Line("breaks", look)


@pytest.mark.parametrize(
    ("line", "outcome", "code"),
    [
        (Line("holds", lambda: "it does"), Outcome.PASS, 0),
        (_raising(Skipped("no tool")), Outcome.SKIP, 0),
        (_raising(Failed("stale")), Outcome.FAIL, 1),
        (_raising(KeyError("a fault of the check")), Outcome.FAIL, 1),
    ],
)
def test_a_failed_line_fails_the_check(line: Line, outcome: Outcome, code: int) -> None:
    """So does a line that broke; what was skipped says why, and does not."""
    results = look_at([line], lambda _: None)
    assert [one.outcome for one in results] == [outcome]
    assert status(results) == code


def test_lines_go_on_after_a_failure_but_not_on_it() -> None:
    """What rests on a line that failed is skipped, whatever else there is is looked at; the table has all."""
    lines = [
        _raising(Failed("first line\nsecond line")),
        Line("rests on it", lambda: "never", ("breaks",)),
        Line("does not", lambda: "seen"),
    ]
    shown: list[str] = []
    results = look_at(lines, lambda result: shown.append(result.note))
    assert [one.outcome for one in results] == [Outcome.FAIL, Outcome.SKIP, Outcome.PASS]
    assert shown[0].endswith("second line")
    rows = table(results).splitlines()
    assert rows[0].endswith("first line")
    assert rows[1].endswith("without: breaks")
    assert rows[-1] == "release-check: 1 pass, 1 skip, 1 fail"


def test_a_program_that_fails_is_quoted() -> None:
    with pytest.raises(Failed, match="ended with 3\nwhy"):
        run("sh", "-c", "echo why >&2; exit 3")
    with pytest.raises(Failed, match="had not ended"):
        run("sleep", "60", within_s=0.1)


def test_contract_and_pages_are_current() -> None:
    assert "current" in texts.contract(ROOT)
    assert "current" in texts.pages(ROOT)


def test_a_stale_schema_is_found(tmp_path: Path) -> None:
    """One that says something else, and one that nobody writes any more."""
    shutil.copytree(ROOT / "proto", tmp_path / "proto")
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "events.md", tmp_path / "docs")
    texts.contract(tmp_path)
    (tmp_path / "proto" / "schema" / "gone.json").write_text("{}")
    with pytest.raises(Failed, match=r"would change 1: proto/schema/gone\.json"):
        texts.contract(tmp_path)
    (tmp_path / "proto" / "console.openapi.json").write_text("{}")
    with pytest.raises(Failed, match="would change 2: proto/console"):
        texts.contract(tmp_path)


def test_fragments_that_find_no_place_are_found(tmp_path: Path) -> None:
    """A name without a kind; and a version that has been released already."""
    shutil.copytree(ROOT / "changes", tmp_path / "changes")
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    shutil.copy(ROOT / "CHANGELOG.md", tmp_path)
    assert texts.changelog(tmp_path) == texts.changelog(ROOT)
    (tmp_path / "changes" / "better.md").write_text("- Better.\n")
    with pytest.raises(Failed, match=r"better\.md: not <slug>"):
        texts.changelog(tmp_path)
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {__version__}\n")
    with pytest.raises(Failed, match="already"):
        texts.changelog(tmp_path)


def test_every_command_has_a_page() -> None:
    """Also those whose modules are imported when they are asked for; it names all options."""
    pages = man.pages("2026-01-01")
    names = {"-".join(("sluice", *path)) + ".1" for path, _ in commands(cli, ())}
    assert pages.keys() == names | {"sluice.1"}
    submit = pages["sluice-submit.1"].replace("\\-", "-")
    for option in ("--filename", "--queue", "--wait"):
        assert option in submit
    assert "\b" not in "".join(pages.values())


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff")
def test_groff_reads_the_pages(tmp_path: Path) -> None:
    for name, text in man.pages("2026-01-01").items():
        (tmp_path / name).write_text(text)
    shell.checked(tmp_path)
    (tmp_path / "bad.1").write_text('.TH "BAD" "1"\n.SH NAME\n.nosuchrequest\n')
    with pytest.raises(Failed, match="nosuchrequest"):
        shell.checked(tmp_path)


def _installed(site: Path, name: str, version: str, *headers: str) -> None:
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    head = ("Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *headers)
    (folder / "METADATA").write_text("\n".join(head) + "\n")


def test_the_bill_names_what_is_installed(tmp_path: Path) -> None:
    """Versions, licenses, and who needs whom; made again it is the same, byte by byte."""
    site = tmp_path / "site"
    _installed(
        site, "sluice-admission", "1.0", "Requires-Dist: Some.Thing>=2", "License-Expression: Apache-2.0"
    )
    _installed(site, "some-thing", "2.1", "License: MIT", "Project-URL: Homepage, https://example.com")
    text = bill(site)
    assert text == bill(site)
    for part in ('"pkg:pypi/some-thing@2.1"', '"Apache-2.0"', '"MIT"', '"https://example.com"'):
        assert part in text
    assert re.search(r'"dependsOn": \[\s*"some-thing==2.1"', text)
    (tmp_path / "requirements.lock").write_text("some-thing==2.1 \\\n    --hash=sha256:00\n")
    assert compared(text, tmp_path) == "1 packages, all as locked"
    (tmp_path / "requirements.lock").write_text("some-thing==2.2 ; sys_platform != 'win32' \\\n")
    with pytest.raises(Failed, match=r"some-thing 2\.1"):
        compared(text, tmp_path)


def test_a_bill_without_us_is_none(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="no sluice-admission"):
        bill(tmp_path)


def test_only_what_git_has_is_built(tmp_path: Path) -> None:
    """What is ignored lies about; links stay links, so that the sdist is made as from a clone."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    subprocess.run(["git", "init", "-q", source], check=True)
    (source / ".gitignore").write_text("*.key\n")
    (source / "kept.py").write_text("kept\n")
    (source / "secret.key").write_text("secret\n")
    (source / "link").symlink_to("kept.py")
    committed(source, target)
    assert {path.name for path in target.iterdir()} == {".gitignore", "kept.py", "link"}
    assert (target / "link").is_symlink()


def test_archives_that_differ_are_told_apart() -> None:
    same({"a": b"1"}, {"a": b"1"})
    with pytest.raises(Failed, match="2 files differ: a, b"):
        same({"a": b"1"}, {"a": b"2", "b": b""})


@pytest.mark.long
def test_wheel_and_sdist_are_whole(tmp_path: Path) -> None:
    """Services and the demo's manifests, which come by links, are in both; neither has tests."""
    packages = Packages(tmp_path / "dist", tmp_path / "work")
    assert "both make the same wheel" in packages.build()
    for archive in (packages.wheel, packages.sdist):
        names = content(archive)
        for part in ("sluice/services/agent/__main__.py", "sluice/cli/templates/demo/", "LICENSE"):
            assert any(part in name for name in names), (archive.name, part)
        assert not [name for name in names if "/tests/" in name or "deploy/" in name]


def test_what_is_not_there_is_skipped_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without tools no line fails, and each says which is missing."""
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    packages = Packages(tmp_path, tmp_path)
    with pytest.raises(Skipped, match="kubectl"):
        deployment.kustomize(packages)
    with pytest.raises(Skipped, match="docker is not installed"):
        deployment.image(packages)
    with pytest.raises(Skipped, match="promtool"):
        deployment.alerts(ROOT)
    with pytest.raises(Skipped, match="groff"):
        shell.man(packages)
    with pytest.raises(Skipped, match=r"docs/decisions/0048") as why:
        deployment.helm()
    assert list(ROOT.glob(f"{str(why.value).rpartition('(')[2].rstrip(')')}-*.md"))
