"""Objects as `-o` asks for them: columns of the user's own."""

import click
import pytest
from click.testing import CliRunner

from sluice.cli.kit.errors import CliError
from sluice.cli.kit.output import custom_columns, field_of, output_option
from sluice.cli.kit.table import render
from tests.unit.cli.kit.test_field_paths import OBJECT


def test_columns_are_in_the_order_and_under_the_titles_that_were_asked_for() -> None:
    """Several values with commas between them; what is absent is said, as by kubectl."""
    columns = custom_columns(
        "custom-columns=GROUPS:.spec.groups[*].name,NAME:.metadata.name,WHY:.status.reason"
    )
    assert render([OBJECT], columns) == ["GROUPS    NAME   WHY", "one,two   a      <none>"]
    assert render([OBJECT], columns, header=False) == ["one,two   a   <none>"]


@pytest.mark.parametrize("wrong", ["", "NAME", "NAME:", ":.metadata.name", "A:.a,,B:.b", "A:.a[?(@.b)]"])
def test_columns_that_cannot_be_read_are_refused(wrong: str) -> None:
    with pytest.raises(CliError):
        custom_columns(f"custom-columns={wrong}")


@pytest.mark.parametrize(
    "form", ["table", "name", "{.metadata.name}", "jsonpath={.a}", "custom-columns=A:.a"]
)
def test_formats_that_there_are(form: str) -> None:
    @click.command()
    @output_option()
    def shown(output: str) -> None:
        click.echo(output)

    assert CliRunner().invoke(shown, ["-o", form]).output.strip() == form.removeprefix("jsonpath=")
    assert "custom-columns=NAME" in CliRunner().invoke(shown, ["-o", "columns"]).output


def test_several_values_of_one_field_have_blanks_between_them() -> None:
    assert field_of(OBJECT, "{.spec.groups[*].name}") == "one two"
    assert field_of(OBJECT, "{.spec.nothing}") == ""
