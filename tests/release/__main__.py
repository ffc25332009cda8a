"""`python -m tests.release`: all that can be done for a release without publishing it.

Builds the archives into dist/, with the bill of materials, man pages and completion scripts, and tries
everything. At the end a table; exit status 1 if a line failed.
"""

import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from sluice import __version__

from . import bill, deployment, shell, texts
from .lines import Line, Result, look_at, status, table
from .packages import EXTRAS, ROOT, Packages


def lines(packages: Packages) -> list[Line]:
    """Return what is looked at, quick things first."""
    root, wheel, sdist = packages.root, packages.wheel, packages.sdist
    return [
        Line("changelog", partial(texts.changelog, root)),
        Line("schemas and APIs", partial(texts.contract, root)),
        Line("pages made of code", partial(texts.pages, root)),
        Line("alert rules", partial(deployment.alerts, root)),
        Line("kustomize", partial(deployment.kustomize, packages)),
        Line("helm", deployment.helm),
        Line("build", packages.build),
        Line("wheel: install", partial(packages.install, wheel, EXTRAS), ("build",)),
        Line("wheel: version", partial(packages.version, wheel), ("wheel: install",)),
        Line("wheel: demo", partial(packages.demo, wheel), ("wheel: install",)),
        Line("sdist: install", partial(packages.install, sdist), ("build",)),
        Line("sdist: version", partial(packages.version, sdist), ("sdist: install",)),
        Line("sdist: demo", partial(packages.demo, sdist), ("sdist: install",)),
        Line("bill of materials", partial(_bill, packages), ("wheel: install",)),
        Line("completion", partial(shell.completion, packages), ("wheel: install",)),
        Line("man pages", partial(shell.man, packages)),
        Line("image", partial(deployment.image, packages)),
    ]


def _bill(packages: Packages) -> str:
    (site,) = packages.venv(packages.wheel).glob("lib/*/site-packages")
    text = bill.bill(site)
    (packages.dist / f"sluice-{__version__}.cdx.json").write_text(text)
    return bill.compared(text, packages.root)


def _show(result: Result) -> None:
    print(f"{result.name}: {result.outcome}: {result.note}", flush=True)


def main() -> int:
    dist = ROOT / "dist"
    # What an older release has left there is not of this one.
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="sluice-release-") as work:
        results = look_at(lines(Packages(dist, Path(work))), _show)
    print(f"\n{table(results)}")
    return status(results)


if __name__ == "__main__":
    sys.exit(main())
