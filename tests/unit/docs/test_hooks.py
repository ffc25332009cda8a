"""The hooks of pre-commit run what `make lint` runs, with the tools of the lock file."""

import re

import yaml

from .pages import ROOT

HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]


def test_hooks_are_those_of_lint() -> None:
    """Who passes the hooks passes `make lint`: none is left out, none asks for more."""
    recipe = re.search(r"(?m)^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text())
    assert recipe is not None
    lines = recipe[1].replace("$(PY)", ".venv/bin/python").splitlines()
    wanted = [line.strip().removesuffix(" .") for line in lines]
    (local,) = HOOKS
    assert local["repo"] == "local"
    assert [hook["entry"].replace(" --force-exclude", "") for hook in local["hooks"]] == wanted
