"""The wheel and the sdist: built, the same inside, and at work in an environment that has nothing else."""

import os
import re
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from sluice import __version__

from .lines import Failed, run

ROOT = Path(__file__).resolve().parents[2]
STEM = f"sluice_admission-{__version__}"
EXTRAS = "otel,s3"
"""What the image has beyond the dependencies."""


class Packages:
    """What is built into *dist* of the sources below *root*; environments are made below *work*."""

    def __init__(self, dist: Path, work: Path, root: Path = ROOT) -> None:
        self.dist, self.work, self.root = dist, work, root
        self.wheel = dist / f"{STEM}-py3-none-any.whl"
        self.sdist = dist / f"{STEM}.tar.gz"

    def build(self) -> str:
        """Make both of what is committed, so that nothing gets in that lies about; the wheel of the sdist."""
        tree = self.work / "tree"
        committed(self.root, tree)
        uv = Path(sys.executable).with_name("uv")
        isolated = ("--no-build-isolation", "--offline", "--python", sys.executable)
        run(uv, "build", "-q", *isolated, "--out-dir", self.dist, tree)
        direct = self.work / "direct"
        run(uv, "build", "-q", "--wheel", *isolated, "--out-dir", direct, tree)
        same(content(self.wheel), content(direct / self.wheel.name))
        return f"{_size(self.wheel)} and {_size(self.sdist)}; both make the same wheel"

    def install(self, archive: Path, extras: str = "") -> str:
        """Install an archive with what it asks for, in the versions of the lock file, and nothing else."""
        venv = self.venv(archive)
        run(sys.executable, "-m", "venv", "--clear", "--without-pip", venv)
        locked = self.work / "constraints.txt"
        locked.write_text("\n".join(constraints(self.root)))
        wanted = f"sluice-admission{f'[{extras}]' * bool(extras)} @ {archive.resolve().as_uri()}"
        pip = (
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--python",
            venv / "bin" / "python",
        )
        run(*pip, "install", "-q", "--no-compile", "-c", locked, wanted, cwd=self.work)
        return f"{len(list(venv.glob('lib/*/site-packages/*.dist-info')))} packages"

    def version(self, archive: Path) -> str:
        """Ask the command that was installed for its version, and where its code lies."""
        said = self.said(archive, "sluice", "--version").strip()
        if said != f"sluice {__version__}":
            raise Failed(f"`sluice --version` says {said!r}, not {__version__}")
        where = self.said(archive, "python", "-c", "import sluice.services.agent as it; print(it.__file__)")
        if not where.startswith(str(self.venv(archive))):
            raise Failed(f"the code comes from {where.strip()}")
        return said

    def demo(self, archive: Path) -> str:
        """Run the demo to its end."""
        said = self.said(archive, "sluice", "demo", "--no-stay")
        ended = re.search(r"(?m)^.*\bSucceeded\b.*$", said)
        if ended is None:
            raise Failed(f"`sluice demo` names no job that has succeeded\n{said[-2000:]}")
        return f"ran to its end, {len(re.findall('Succeeded', said))} lines of jobs that succeeded"

    def venv(self, archive: Path) -> Path:
        return self.work / f"venv-{'wheel' if archive == self.wheel else 'sdist'}"

    def said(self, archive: Path, program: str, *words: str, **env: str) -> str:
        """Run a program of the archive's environment, in a directory of its own; return what it printed."""
        home = self.work / f"home-{self.venv(archive).name}"
        home.mkdir(exist_ok=True)
        clean = {"PATH": f"{self.venv(archive)}/bin:/usr/bin:/bin", "HOME": str(home), **env}
        return run(self.venv(archive) / "bin" / program, *words, cwd=home, env=clean)


def committed(root: Path, target: Path) -> None:
    """Copy to *target* what git has of *root*, as it is there now; links stay links."""
    names = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=root).split("\0")
    for name in filter(None, names):
        source, copy = root / name, target / name
        if os.path.lexists(source):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)


def constraints(root: Path) -> Iterable[str]:
    """Yield the versions of the lock file, as constraints for pip; with hashes it would refuse ours."""
    for line in (root / "requirements.lock").read_text().splitlines():
        if re.match(r"[A-Za-z0-9]", line):
            yield line.removesuffix("\\").strip()


def content(archive: Path) -> dict[str, bytes]:
    """Return the files of a wheel or an sdist."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}
    with tarfile.open(archive) as sdist:
        files = [(one.name, sdist.extractfile(one)) for one in sdist.getmembers()]
        return {name: file.read() for name, file in files if file is not None}


def same(one: dict[str, bytes], other: dict[str, bytes]) -> None:
    """Two archives have the same files.

    Raises:
        Failed: they have not; names some that differ.
    """
    differ = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    if differ:
        raise Failed(f"{len(differ)} files differ: {', '.join(differ[:5])}")


def _size(path: Path) -> str:
    return f"{path.name} ({path.stat().st_size / 1e6:.1f} MB)"
