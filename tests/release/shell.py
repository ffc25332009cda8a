"""What shells and `man` get: completion scripts and pages, made into the folder of the release, and tried."""

import shutil
import time
from pathlib import Path

from .lines import Failed, Skipped, run
from .man import pages
from .packages import Packages

SHELLS = {"bash": "sluice.bash", "zsh": "_sluice", "fish": "sluice.fish"}
"""The file of each shell's script, as it is called where the shell looks for it."""


def completion(packages: Packages) -> str:
    """Make the scripts by the installed command; shells that are here read theirs, all complete."""
    folder = packages.dist / "completion"
    folder.mkdir(parents=True, exist_ok=True)
    read = []
    for shell, file in SHELLS.items():
        script = folder / file
        script.write_text(packages.said(packages.wheel, "sluice", "completion", shell))
        if shutil.which(shell):
            run(shell, "-n", script)
            read.append(shell)
        asked = {"COMP_WORDS": "sluice su", "COMP_CWORD": "1" if shell != "fish" else "su"}
        said = packages.said(packages.wheel, "sluice", **asked, _SLUICE_COMPLETE=f"{shell}_complete")
        if "submit" not in said.replace(",", "\n").split():
            raise Failed(f"{shell}: `sluice su` is not completed to `submit`, but to {said!r}")
    others = ", ".join(shell for shell in SHELLS if shell not in read)
    return f"bash, zsh, fish; read by {' and '.join(read)}" + f", not by {others}: not installed" * bool(
        others
    )


def man(packages: Packages) -> str:
    """Make a page for each command, and let groff look for mistakes in it."""
    folder = packages.dist / "man"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    made = pages(time.strftime("%Y-%m-%d"))
    for name, text in made.items():
        (folder / name).write_text(text)
    if not shutil.which("groff"):
        raise Skipped(f"{len(made)} pages are made, and not checked: there is no groff")
    checked(folder)
    return f"{len(made)} pages, read by groff without a warning"


def checked(folder: Path) -> None:
    """Let groff read all pages of *folder*.

    Raises:
        Failed: it warns of something.
    """
    # Without 'break': lines that cannot be broken are examples, as wide as somebody wrote them.
    words = ("groff", "-man", "-Tutf8", "-Kutf8", "-ww", "-Wbreak", "-z")
    warned = run("sh", "-c", 'exec "$@" 2>&1', "sh", *words, *sorted(folder.glob("*.1")))
    if warned.strip():
        raise Failed(f"groff: {warned.strip()}")
