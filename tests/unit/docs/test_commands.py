"""Every `sluice` command line in the documentation is one that the command would take."""

import click
import pytest

from sluice.cli.main import cli

from . import metrics_page, rights_page
from .cli_page import PAGE, page
from .pages import PAGES, Command, commands

COMMANDS = [command for path in PAGES for command in commands(path)]


def parse(command: click.Command, words: list[str], label: str, parent: click.Context | None = None) -> None:
    """Parse as click would, without running anything.

    Raises:
        click.UsageError: the words make no sense.
    """
    context = command.make_context(label, list(words), parent=parent)
    if isinstance(command, click.Group):
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        name, found, rest = command.resolve_command(context, rest)
        assert name is not None
        assert found is not None
        parse(found, rest, name, context)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: f"{c.page}: {c.text}"[:80])
def test_commands_parse(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """No option is misspelt, none is missing, no command is gone."""
    monkeypatch.delenv("SLUICE_NAMESPACE", raising=False)
    try:
        parse(cli, command.words, "sluice")
    except click.exceptions.Exit:
        pass  # --help
    except click.MissingParameter:
        assert command.in_sentence, f"{command.page}: `{command.text}` lacks an argument"
    except click.ClickException as error:
        pytest.fail(f"{command.page}: `{command.text}`: {error.format_message()}")


def test_there_are_commands() -> None:
    """The pages are read at all."""
    assert len(COMMANDS) > 60


def test_the_page_of_commands_is_current() -> None:
    """docs/cli.md is what the commands say of themselves."""
    assert PAGE.read_text() == page(), "run: python -m tests.unit.docs.cli_page"


def test_the_page_of_rights_is_current() -> None:
    """docs/rights.md is what the roles say."""
    assert rights_page.PAGE.read_text() == rights_page.page(), "run: python -m tests.unit.docs.rights_page"


def test_the_page_of_metrics_is_of_what_there_is():
    assert metrics_page.PAGE.read_text() == metrics_page.page(), "run: make docs"
