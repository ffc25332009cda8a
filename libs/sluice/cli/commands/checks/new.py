"""`sluice check new`: a working project folder for an admission check."""

import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from sluice.cli.kit.errors import CliError
from sluice.cli.kit.terminal import echo

LANGUAGES = ("python", "javascript")
_SUFFIX = ".in"
_HIDDEN = ("npmrc", "gitignore")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@click.command("new")
@click.argument("name")
@click.option(
    "--language",
    type=click.Choice(LANGUAGES),
    default="python",
    show_default=True,
    help="What to write it in.",
)
@click.option("--controller", metavar="NAME", help="Its controllerName (default: example.com/NAME).")
@click.option("--directory", metavar="DIR", type=click.Path(path_type=Path), help="Where (default: NAME).")
def new_check(name: str, language: str, controller: str | None, directory: Path | None) -> None:
    """Make a project folder for an admission check: code, tests, manifests.

    What is made runs as it is; all that a check can do is in docs/admission-checks.md.

    \b
    Examples:
      sluice check new budget
      sluice check new budget --language javascript --controller finance.example.com/budget
    """
    if not _NAME.fullmatch(name):
        raise CliError(
            f"{name!r}: want a name of lower-case letters, digits and '-', as objects have", exit_code=2
        )
    target = directory or Path(name)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CliError(f"{target} exists already, and is not empty", hint="Name another --directory.")
    written = render(name, language, controller or f"example.com/{name}")
    target.mkdir(parents=True, exist_ok=True)
    for file, text in written:
        (target / file).write_text(text)
        echo(f"{target / file}")
    echo(f"\nHow to run it is in {target / 'README.md'}.")


def render(name: str, language: str, controller: str) -> Iterator[tuple[str, str]]:
    """Yield the project's files: name and text."""
    words = {
        "__NAME__": name,
        "__CONTROLLER__": controller,
        "__TITLE__": f"The admission check {name}",
    }
    for file in sorted(_templates(language), key=lambda one: one.name):
        text = file.read_text()
        for word, value in words.items():
            text = text.replace(word, value)
        bare = file.name.removesuffix(_SUFFIX)
        yield (f".{bare}" if bare in _HIDDEN else bare), text


def _templates(language: str) -> Iterator[Traversable]:
    for file in files("sluice.cli").joinpath("templates", "check", language).iterdir():
        if file.name.endswith(_SUFFIX):
            yield file
